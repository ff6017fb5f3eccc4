// Package query defines queries on events: which events are selected, how they are counted or
// paired, and in which buckets. The kernel and this process evaluate the same queries.
package query

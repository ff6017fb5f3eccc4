// Package query has what is asked of events: which ones, counted or paired by what, and in which
// buckets. Whatever answers, the kernel or this process, on any system, it is asked in these terms.
package query

// Package layout defines the layout of the data that BPF programs leave in the kernel, and reads
// it: records of events in a ring buffer, and tables in which events are counted.
package layout

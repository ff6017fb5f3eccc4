// Package layout is the layout of what BPF programs leave in the kernel, and its readers: records of
// events in a ring buffer, and tables in which events are counted.
package layout

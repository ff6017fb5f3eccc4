// Package live lets a command watch programs by their sockets, without the kernel: it decides
// whether sockets or the kernel deliver the events, and reads the events that programs write to
// memory.
package live

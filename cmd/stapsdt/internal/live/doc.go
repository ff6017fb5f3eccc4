// Package live lets a command watch programs by their sockets, without the kernel: it decides which of
// the two delivers the events, and reads those that programs write to memory.
package live

// Package systest tests the whole of the package against the kernel, with BPF programs as tracers: that what is fired is
// what is seen. Tests compare each argument; the command soak counts what nobody could compare one by one. It is a module
// of its own, because it needs more than those who use the package should have to download.
package systest

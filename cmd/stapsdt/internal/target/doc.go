//go:build linux

// Package target finds and opens the files with probes that processes have mapped.
//
// A process maps its program, its shared libraries and the images of stapsdt, which may be
// deleted or in memory, and may be in a mount namespace that is not ours. All of them are
// opened, and known by their inode, because that is what the kernel attaches to.
package target

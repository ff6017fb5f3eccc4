//go:build linux

// Package target finds and opens the files with probes that processes have mapped.
//
// A process maps its program, its shared libraries and the images of stapsdt, which may be
// deleted or in memory, and may be in another mount namespace. All of them are opened, and
// identified by their inode, because the kernel attaches to inodes.
package target

//go:build !cgo

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// allocate returns memory from mmap, and a function that frees it.
func allocate(size int) (memory []byte, free func(), err error) {
	memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("map a buffer: %w", err)
	}
	return memory, func() { _ = unix.Munmap(memory) }, nil
}

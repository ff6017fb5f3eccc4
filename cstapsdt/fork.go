//go:build linux && cgo && !stapsdt_nocgo

package cstapsdt

/*
#include "private.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Mapping describes the executable pages of an image, and their file.
type Mapping struct {
	Start    unsafe.Pointer
	Size     uintptr // whole pages
	Offset   uint64  // in the file
	Dev, Ino uint64
	Path     string
	Memfd    int // the descriptor of a memfd, or -1
}

// ForkGuard is a mapping that forked children map again.
type ForkGuard struct{ c *C.struct_sdt_mapping }

// GuardForks makes every child that this process forks map the pages again, until Release is
// called. Release must be called before the pages are unmapped or replaced.
func GuardForks(m Mapping) (*ForkGuard, error) {
	c := C.sdt_fork_guard(&C.struct_sdt_mapping{
		start:  m.Start,
		size:   C.size_t(m.Size),
		offset: C.uint64_t(m.Offset),
		dev:    C.dev_t(m.Dev),
		ino:    C.ino_t(m.Ino),
		memfd:  C.int(m.Memfd),
	}, cstring(m.Path))
	if c == nil {
		return nil, errors.New("no memory to prepare for a fork")
	}
	return &ForkGuard{c}, nil
}

// Release undoes GuardForks. It may be called again, and for nil.
func (g *ForkGuard) Release() {
	if g != nil {
		C.sdt_fork_release(g.c)
		g.c = nil
	}
}

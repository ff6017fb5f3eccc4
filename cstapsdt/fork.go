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
	Memory   int // the descriptor of a memfd, or -1
}

// Kept is a mapping that forked children map again.
type Kept struct{ c *C.struct_sdt_mapping }

// Keep makes every child that this process forks map the pages again, until Forget is
// called. Forget must be called before the pages are unmapped or replaced.
func Keep(m Mapping) (*Kept, error) {
	c := C.sdt_fork_keep(&C.struct_sdt_mapping{
		start:  m.Start,
		size:   C.size_t(m.Size),
		offset: C.uint64_t(m.Offset),
		dev:    C.dev_t(m.Dev),
		ino:    C.ino_t(m.Ino),
		memory: C.int(m.Memory),
	}, cstring(m.Path))
	if c == nil {
		return nil, errors.New("no memory to prepare for a fork")
	}
	return &Kept{c}, nil
}

// Forget undoes Keep. It may be called again, and for nil.
func (k *Kept) Forget() {
	if k != nil {
		C.sdt_fork_forget(k.c)
		k.c = nil
	}
}

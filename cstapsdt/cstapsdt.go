//go:build linux && cgo && !stapsdt_nocgo

// Package cstapsdt is an implementation detail of package stapsdt: what it exports may change
// or disappear in any version. It compiles the C library in this directory, with which
// package stapsdt defines providers and builds their images. Go programs use that package; C
// programs and other languages use libstapsdt.h.
package cstapsdt

/*
#cgo CFLAGS: -std=c11 -O2 -fno-omit-frame-pointer -DSDT_IN_GO
#cgo LDFLAGS: -ldl

#include <stdlib.h>
#include "private.h"
*/
import "C"

import (
	"errors"
	"runtime"
	"slices"
	"unsafe"
)

// HasLibelf reports whether images can be built: the C library was compiled with the
// headers of libelf, and this program is dynamic and finds libelf.so.1.
func HasLibelf() bool { return bool(C.sdt_has_libelf()) }

// Error is an SDTError_t and the library's line of error.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// Provider owns an SDTProvider_t and its probes. It is not safe for concurrent
// use.
type Provider struct{ c *C.SDTProvider_t }

// NewProvider returns a new provider. Close frees it.
func NewProvider(name string) (*Provider, error) {
	c := C.providerInit(cstring(name))
	if c == nil {
		return nil, errors.New("no memory for the provider")
	}
	return &Provider{c}, nil
}

// AddProbe adds a probe. The types of its arguments are values of ArgType_t.
func (p *Provider) AddProbe(name string, args []int8) error {
	types := make([]C.ArgType_t, len(args))
	for i, t := range args {
		types[i] = C.ArgType_t(t)
	}
	if C.providerAddProbeV(p.c, cstring(name), C.int(len(types)), unsafe.SliceData(types)) == nil {
		return p.err()
	}
	return nil
}

// addNamedProbe adds a probe whose arguments have names, as programs in C do: package stapsdt
// describes its probes itself. A type may also be 16, a string.
func (p *Provider) addNamedProbe(name string, names []string, args []int8) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	list := make([]C.SDTArgument_t, len(args))
	for i, t := range args {
		list[i]._type = C.ArgType_t(t)
		list[i].name = cstring(names[i])
		pinner.Pin(list[i].name)
	}
	if C.providerAddNamedProbe(
		p.c, cstring(name), C.int(len(list)), unsafe.SliceData(list),
	) == nil {
		return p.err()
	}
	return nil
}

// Debug holds the debug sections of an image, in the order of the file, and the address of
// the first site in them.
type Debug struct {
	Sections [C.SDT_DEBUG_SECTIONS][]byte
	Text     uint64
}

// Image returns the provider's image for an architecture and one of its nops in
// arch.def, and the offset of its first site. debug may be nil. The image then has debug
// sections if there are named probes.
func (p *Provider) Image(arch, nop string, debug *Debug) (image []byte, text uint64, err error) {
	var bytes unsafe.Pointer
	var size C.size_t
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if C.sdt_provider_image(
		p.c, cstring(arch), cstring(nop), debug.c(&pinner), &bytes, &size,
	) != 0 {
		return nil, 0, p.err()
	}
	// SAFETY: C allocated size bytes at that address with malloc and left them
	// to us. They are copied, then freed, and not used again.
	image = append([]byte(nil), unsafe.Slice((*byte)(bytes), int(size))...)
	C.free(bytes)
	if first := p.c.probes; first != nil {
		text = uint64(C.probeOffset(&first.probe))
	}
	return image, text, nil
}

// c returns C's form of the sections, which are pinned.
func (d *Debug) c(pinner *runtime.Pinner) *C.struct_sdt_debug {
	if d == nil {
		return nil
	}
	all := slices.Concat(d.Sections[:]...)
	all = append(all, 0) // so that it is not empty
	pinner.Pin(&all[0])
	// SAFETY: C reads the bytes only during the call, while they are pinned.
	c := &C.struct_sdt_debug{text: C.uint64_t(d.Text), bytes: (*C.uchar)(unsafe.Pointer(&all[0]))}
	for i, s := range d.Sections {
		c.size[i] = C.size_t(len(s))
	}
	return c
}

// Close frees the provider and its probes.
func (p *Provider) Close() {
	C.providerDestroy(p.c)
	p.c = nil
}

// chosenNop returns the name of the nop that the C library finds fastest in this process.
func chosenNop() string { return C.GoString(C.sdt_nop_name()) }

// err returns the error of the last call on the provider.
func (p *Provider) err() error {
	return &Error{int(C.providerErrno(p.c)), C.GoString(C.providerError(p.c))}
}

// cstring returns a NUL-terminated copy of s on Go's heap, for calls that do not
// keep it. The part of s after a NUL is lost; names have none.
func cstring(s string) *C.char {
	// SAFETY: cgo pins the memory that a pointer argument points to for the call.
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(append([]byte(s), 0))))
}

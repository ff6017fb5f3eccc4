//go:build linux && cgo && !stapsdt_nocgo

// Package cstapsdt compiles the C library in this folder, and lets the package
// above it define providers and have their images built. Programs use that
// package; C programs and other languages use libstapsdt.h.
package cstapsdt

/*
#cgo CFLAGS: -std=c11 -O2
#cgo LDFLAGS: -lelf -ldl

#include <stdlib.h>
#include "private.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Error is an SDTError_t and what the library says of it.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// Provider owns an SDTProvider_t and its probes. It is not safe for concurrent
// use.
type Provider struct{ c *C.SDTProvider_t }

// NewProvider makes a provider. Close frees it.
func NewProvider(name string) (*Provider, error) {
	c := C.providerInit(cstring(name))
	if c == nil {
		return nil, errors.New("no memory for the provider")
	}
	return &Provider{c}, nil
}

// AddProbe adds a probe, whose arguments are given by ArgType_t's values.
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

// Image returns the provider's image, for an architecture and with sites of a
// kind that arch.def has, and the offset of its first site.
func (p *Provider) Image(arch, site string) (image []byte, text uint64, err error) {
	var bytes unsafe.Pointer
	var size C.size_t
	if C.sdt_provider_image(p.c, cstring(arch), cstring(site), &bytes, &size) != 0 {
		return nil, 0, p.err()
	}
	// SAFETY: C made size bytes at that address with malloc and gave them to
	// us. They are copied, then freed, and not used again.
	image = append([]byte(nil), unsafe.Slice((*byte)(bytes), int(size))...)
	C.free(bytes)
	if first := p.c.probes; first != nil {
		text = uint64(C.probeOffset(&first.probe))
	}
	return image, text, nil
}

// Close frees the provider and its probes.
func (p *Provider) Close() {
	C.providerDestroy(p.c)
	p.c = nil
}

// Site returns the kind of site that the C library uses in this process.
func Site() string { return C.GoString(C.sdt_site_name()) }

// err returns what the last call on the provider failed with.
func (p *Provider) err() error {
	return &Error{int(C.providerErrno(p.c)), C.GoString(C.providerError(p.c))}
}

// cstring returns a NUL-terminated copy of s on Go's heap, for calls that do not
// keep it. What follows a NUL in s is lost; names have none.
func cstring(s string) *C.char {
	// SAFETY: cgo pins what a pointer argument points to for the call.
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(append([]byte(s), 0))))
}

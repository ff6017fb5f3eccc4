// Command crash faults in the C library on purpose, so that a test can look at
// the trace that it leaves.
package main

import (
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cstapsdt"

	_ "github.com/ianlancetaylor/cgosymbolizer"
)

func main() {
	p, err := cstapsdt.NewProvider("crash")
	if err != nil {
		panic(err)
	}
	// The only member is the address of the SDTProvider_t.
	*(*uintptr)(unsafe.Pointer(p)) = 64
	p.AddProbe("probe", nil)
}

package main

import (
	"fmt"
	"os"

	rt "github.com/arnodel/golua/runtime"
)

// A buffer is memory outside Go's heap, from malloc in a program with cgo, and from mmap
// otherwise (see allocate). Its pages are allocated when they are touched.

// buffer(bytes) returns a function that writes to every page, and one that frees.
func newBuffer(t *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
	size, err := c.IntArg(0)
	if err != nil {
		return nil, err
	}
	if size < 1 || size > 1<<30 {
		return nil, fmt.Errorf("a buffer of %d bytes", size)
	}
	memory, free, err := allocate(int(size))
	if err != nil {
		return nil, err
	}
	touch := func(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		return c.Next(), nil
	}
	release := func(_ *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
		if memory != nil {
			free()
			memory = nil
		}
		return c.Next(), nil
	}
	return c.PushingNext(t.Runtime,
		rt.FunctionValue(rt.NewGoFunction(touch, "touch", 0, false)),
		rt.FunctionValue(rt.NewGoFunction(release, "free", 0, false))), nil
}

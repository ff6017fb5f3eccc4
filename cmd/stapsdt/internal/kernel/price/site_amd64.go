//go:build linux

package price

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"

// The addresses of functions, each of which begins with an instruction.
var nop1, nop5, nop10, push, ret, compare uintptr

// sites returns the functions by their first instructions.
func sites() map[bpf.Instruction]uintptr {
	return map[bpf.Instruction]uintptr{
		"nop1": nop1, "nop5": nop5, "nop10": nop10, bpf.Push: push, bpf.Return: ret, bpf.Entry: compare,
	}
}

// call calls one of the functions n times.
//
//go:noescape
func call(function uintptr, n int)

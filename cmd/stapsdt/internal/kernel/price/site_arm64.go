//go:build linux

package price

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"

// The addresses of functions, each of which begins with an instruction.
var nop4, branch, ret, load uintptr

// sites returns the functions by their first instructions.
func sites() map[bpf.Instruction]uintptr {
	return map[bpf.Instruction]uintptr{
		"nop4":     nop4,
		bpf.Branch: branch,
		bpf.Return: ret,
		bpf.Entry:  load,
	}
}

// call calls one of the functions n times.
//
//go:noescape
func call(function uintptr, n int)

//go:build linux && !amd64 && !arm64

package bpf

// On other architectures nothing can be attached: Kernel says so.
var registers map[string]int16

const ipOffset = 0

const goroutineRegister, stackRegister = "", ""

const flagsOffset = 0

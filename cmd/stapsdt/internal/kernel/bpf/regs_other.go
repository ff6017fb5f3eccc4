//go:build linux && !amd64 && !arm64

package bpf

// registers is empty on other architectures, where nothing can be attached; Detect returns an
// error.
var registers map[string]int16

const ipOffset = 0

const goroutineRegister, stackRegister = "", ""

const flagsOffset = 0

//go:build linux && cgo

package main

// If C code crashes, the trace names its frames.
import _ "github.com/ianlancetaylor/cgosymbolizer"

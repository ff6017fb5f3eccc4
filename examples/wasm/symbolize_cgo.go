//go:build linux && cgo

package main

// Should C code crash, its frames are named in the trace.
import _ "github.com/ianlancetaylor/cgosymbolizer"

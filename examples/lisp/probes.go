package main

import "github.com/go-stapsdt/stapsdt"

// probes holds the probes of a language. Scripts for other languages work if the arguments
// are the same: the file, the function's name, the line where it is defined, and the thread
// of the program that calls it.
type probes struct {
	entry, ret *stapsdt.Probe4[string, string, int32, uint64]
}

func newProbes(p *stapsdt.Provider) probes {
	define := func(name string) *stapsdt.Probe4[string, string, int32, uint64] {
		return stapsdt.NewProbe4[string, string, int32, uint64](p, name, "file", "function", "line", "thread")
	}
	return probes{define("function__entry"), define("function__return")}
}

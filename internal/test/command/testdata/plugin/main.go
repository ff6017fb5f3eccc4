// A plugin with probes, which testdata/pluginhost loads.
package main

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt"
)

var (
	subject = stapsdt.NewProvider("subject")
	done    = stapsdt.NewProbe1[string](subject, "request__done", "path")
)

func main() {}

// Load loads the probes.
func Load() error { return subject.Load() }

// Fire fires n times.
func Fire(n int) {
	for i := range n {
		done.Fire(fmt.Sprint("/item/", i))
	}
}

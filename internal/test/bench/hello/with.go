//go:build probes

package main

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt"
)

// fire uses a probe of each kind, so that the linker leaves out nothing that a
// program would have. It loads nothing: what runs all the same, runs at init.
func fire() {
	app := stapsdt.NewProvider("hello")
	typed := stapsdt.NewProbe2[string, int32](app, "typed")
	dynamic, err := app.AddProbe("dynamic", stapsdt.String, stapsdt.Int32)
	if err == nil && len(app.Probes()) == 0 {
		err = app.Load()
	}
	typed.Fire("hello", 1)
	if dynamic.Enabled() {
		err = dynamic.Fire("hello", 1)
	}
	if err != nil {
		fmt.Println(err)
	}
	if err := app.Unload(); err != nil {
		fmt.Println(err)
	}
	if err := app.Close(); err != nil {
		fmt.Println(err)
	}
}

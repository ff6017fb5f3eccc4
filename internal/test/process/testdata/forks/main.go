// Command forks is built as a C library: a program in another language loads it, fires
// its probe, and forks.
package main

import "C"

import (
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt"
)

var (
	app   *stapsdt.Provider
	probe *stapsdt.Probe1[int]
)

// Load loads the provider, in memory or in a file, and prints its path.
//
//export Load
func Load(memory bool) {
	var opts []stapsdt.Option
	if memory {
		opts = append(opts, stapsdt.WithMemfd())
	}
	app = stapsdt.NewProvider("forks", opts...)
	probe = stapsdt.NewProbe1[int](app, "probe")
	if err := app.Load(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("path", app.Path())
}

//export Fire
func Fire(value int) { probe.Fire(value) }

//export Enabled
func Enabled() bool { return probe.Enabled() }

//export Reload
func Reload() bool { return app.Unload() == nil && app.Load() == nil }

func main() {}

//go:build env

package main

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
)

var (
	app  = stapsdt.NewProvider("hello")
	done = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__done", "path", "status", "elapsed")
)

// fire is what README has: the environment decides what is done with the probe.
func fire() {
	if err := probeenv.Load(); err != nil {
		fmt.Println(err)
	}
	done.Fire("hello", 1, time.Second)
}

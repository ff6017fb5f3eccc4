//go:build bare || named

package main

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

type userID int64

// app is the provider of twenty probes, which the build tag gives names or none.
var app = stapsdt.NewProvider("hello")

// fire fires two of the probes.
func fire() {
	if err := app.Load(); err != nil {
		fmt.Println(err)
	}
	defer app.Close()
	request0.Fire("hello", 1, time.Second)
	query0.Fire(1, true, nil, 2)
}

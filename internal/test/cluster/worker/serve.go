package main

import (
	"log"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
)

// launch starts workers that serve, as the script of an image does that does not exec, and waits for them.
func launch(workers, events int) {
	for range workers {
		c := exec.Command(os.Args[0], "-serve", "-events", strconv.Itoa(events))
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			log.Fatal(err)
		}
		defer func() { _ = c.Wait() }()
	}
}

// serve fires these events whenever a tracer attaches to its probe.
func serve(events int) {
	provider := stapsdt.NewProvider("worker")
	asked := stapsdt.NewProbe1[int](provider, "asked", "number")
	if err := probeenv.Load(); err != nil {
		log.Fatal(err)
	}
	await := func(enabled bool) {
		for asked.Enabled() != enabled {
			time.Sleep(time.Millisecond)
		}
	}
	for {
		await(true)
		time.Sleep(time.Second)
		for i := range events {
			asked.Fire(i)
		}
		await(false)
	}
}

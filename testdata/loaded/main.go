// Command loaded loads a provider, and fails when it cannot. With STAPSDT_DEBUG=1 it
// thereby says how the image was made.
package main

import (
	"log"

	"github.com/go-stapsdt/stapsdt"
)

func main() {
	app := stapsdt.NewProvider("loaded")
	stapsdt.NewProbe2[string, int](app, "probe").Fire("text", 1)
	if err := app.Load(); err != nil {
		log.Fatal(err)
	}
	if err := app.Close(); err != nil {
		log.Fatal(err)
	}
}

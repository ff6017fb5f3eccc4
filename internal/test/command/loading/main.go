// Command loading loads its probes, and fires them at once.
package main

import (
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
)

var now = stapsdt.NewProbe1[int](stapsdt.NewProvider("loading"), "now", "n")

func main() {
	if err := probeenv.Load(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := range 1000 {
		now.Fire(i)
	}
	fmt.Println("fired")
}

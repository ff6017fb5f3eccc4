// Command hello greets twice a second, and prints the commands that trace it.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

var (
	hello    = stapsdt.NewProvider("hello")
	greeting = stapsdt.NewProbe2[string, int](hello, "greeting", "text", "number")
)

func main() {
	if err := hello.Load(); err != nil {
		log.Print(err) // the probe stays a no-op, and the program goes on
	}
	defer hello.Close()
	fmt.Print(instructions(hello.Path()))

	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	tick := time.NewTicker(500 * time.Millisecond)
	for n := 1; ; n++ {
		select {
		case <-interrupt:
			return
		case <-tick.C:
			greeting.Fire(fmt.Sprintf("hello, tracer %d", n), n)
		}
	}
}

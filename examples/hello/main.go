// Command hello greets twice a second, and lets a tracer listen.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

func main() {
	hello := stapsdt.NewProvider("hello")
	greeting, err := hello.AddProbe("greeting", stapsdt.String, stapsdt.Uint64)
	if err != nil {
		log.Fatal(err)
	}
	if err := hello.Load(); err != nil {
		log.Print(err) // the probe stays a no-op, and the program goes on
	}
	defer hello.Close()

	fmt.Println("In another terminal, as root:")
	fmt.Printf("  bpftrace -p %d -e 'usdt:*:hello:greeting { printf(\"%%s %%d\\n\", str(arg0), arg1); }'\n", os.Getpid())

	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	tick := time.NewTicker(500 * time.Millisecond)
	for n := uint64(1); ; n++ {
		select {
		case <-interrupt:
			return
		case <-tick.C:
			if err := greeting.Fire(fmt.Sprintf("hello, tracer %d", n), n); err != nil {
				log.Print(err)
			}
		}
	}
}

//go:build linux

// Command storm GOROUTINES EVENTS waits until its probes are watched or recorded, fires as many events in each of the goroutines, as fast as it can,
// and then some that follow one another from goroutine to goroutine. It prints ready once its probes are loaded, and at the end the
// number of all events.
package main

import (
	"fmt"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
)

// tokens is the number of events that follow one another.
const tokens = 20_000

var letters = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 2)

func main() {
	p := stapsdt.NewProvider("storm")
	event := stapsdt.NewProbe4[uint64, uint64, uint64, string](p, "event", "goroutine", "n", "check", "text")
	token := stapsdt.NewProbe1[uint64](p, "token", "n")
	if err := probeenv.Load(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	for !event.Enabled() || !token.Enabled() {
		time.Sleep(time.Millisecond)
	}
	goroutines, each := number(os.Args[1]), number(os.Args[2])
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for n := range each {
				event.Fire(g, n, (g<<60^n)*0x9e3779b97f4a7c15, letters[:n%26])
			}
		})
	}
	group.Wait()
	pass(token, goroutines)
	fmt.Println("fired", goroutines*each+tokens)
}

// pass passes numbers through a ring of goroutines, some of which have a thread of their own. Each fires the number before it passes the next one on.
func pass(token *stapsdt.Probe1[uint64], goroutines uint64) {
	ring := make([]chan uint64, goroutines)
	for i := range ring {
		ring[i] = make(chan uint64, 1)
	}
	done := make(chan bool)
	for i := range ring {
		go func() {
			if i%8 == 0 {
				runtime.LockOSThread()
			}
			for n := range ring[i] {
				token.Fire(n)
				if n+1 == tokens {
					close(done)
					return
				}
				ring[(i+1)%len(ring)] <- n + 1
			}
		}()
	}
	ring[0] <- 0
	<-done
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

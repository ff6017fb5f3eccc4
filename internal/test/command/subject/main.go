// Command subject fires probes as it is told on standard input, and prints "ok" when that
// is done:
//
//	fire N       fires request__done N times, with the numbers of the fires
//	handle N     fires handled N times, with a pointer to a struct
//	storm N T    fires tick N times in each of T goroutines
//	pace N T MS  fires tick N times in each of T goroutines, evenly during MS milliseconds
//	rest MS      sleeps
//	unload, load
//	quit
//
// The argument memfd puts the image into memory.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

var (
	subject = stapsdt.NewProvider("subject", options()...)
	done    = stapsdt.NewProbe4[string, int32, time.Duration, bool](subject, "request__done", "path", "status", "elapsed", "cached")
	handled = stapsdt.NewProbeOf[handledArgs](subject, "handled")
	tick    = stapsdt.NewProbe2[uint64, uint8](subject, "tick")
)

type handledArgs struct {
	Req *request
	N   int
}

type request struct {
	Path   string
	Status int32
	Flags  [3]uint8
	Inner  struct {
		Ratio float64
		Name  string
	}
	Next  *request
	Took  time.Duration
	Ok    bool
	Large [1024]byte
	Last  int
}

func newRequest(n int) *request {
	r := &request{Path: fmt.Sprintf("/item/%d", n), Status: int32(-n), Flags: [3]uint8{1, 2, byte(n)}, Took: time.Duration(n) * time.Second, Ok: true, Last: n}
	r.Inner.Ratio = float64(n) / 2
	return r
}

func options() (all []stapsdt.Option) {
	if len(os.Args) > 1 && os.Args[1] == "memfd" {
		all = append(all, stapsdt.WithMemfd())
	}
	return all
}

func main() {
	if err := subject.Load(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	fires := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		var word string
		var n, goroutines, milliseconds int
		fmt.Sscan(in.Text(), &word, &n, &goroutines, &milliseconds)
		switch word {
		case "fire":
			for range n {
				done.Fire(fmt.Sprintf("/item/%d", fires), int32(fires%7-3), time.Duration(fires)*time.Millisecond, fires%2 == 0)
				fires++
			}
		case "handle":
			for i := range n {
				handled.Fire(handledArgs{newRequest(i), i})
			}
		case "storm":
			storm(n, goroutines, 0)
		case "pace":
			storm(n, goroutines, time.Duration(milliseconds)*time.Millisecond)
		case "rest":
			time.Sleep(time.Duration(n) * time.Millisecond)
		case "unload":
			check(subject.Unload())
		case "load":
			check(subject.Load())
		case "quit":
			return
		default:
			log.Fatalf("%q is no command", in.Text())
		}
	}
}

func storm(n, goroutines int, during time.Duration) {
	var wg sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			for i := range n {
				if during > 0 && i%100 == 0 {
					time.Sleep(time.Until(start.Add(during * time.Duration(i) / time.Duration(n))))
				}
				tick.Fire(uint64(i), uint8(g))
			}
		})
	}
	wg.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Command subject fires probes as it is told on standard input, and prints "ok" when that
// is done:
//
//	fire N       fires request__done N times, with the numbers of the fires
//	handle N     fires handled N times, with a pointer to a struct
//	storm N T    fires tick N times in each of T goroutines
//	pace N T MS  fires tick N times in each of T goroutines, evenly during MS milliseconds
//	rest MS      sleeps
//	unload, load
//	listen, hush lets others watch it without root, or no longer
//	record FILE  records to a file
//	await, idle  waits until request__done is enabled, or not
//	late N       fires the probe of a new provider, late:event, N times
//	exec         starts this program again, in the same process
//	quit
//
// The argument memfd puts the image into memory. With the argument unnamed, it fires probes whose arguments have no names
// for each line instead.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"
)

var (
	subject = stapsdt.NewProvider("subject", options()...)
	done    = stapsdt.NewProbe4[string, int32, time.Duration, bool](subject, "request__done", "path", "status", "elapsed", "cached")
	handled = stapsdt.NewProbeOf[handledArgs](subject, "handled")
	tick    = stapsdt.NewProbe2[uint64, uint8](subject, "tick")
)

var (
	listener io.Closer
	recorder *proberec.Recorder
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
	if len(os.Args) > 1 && os.Args[1] == "unnamed" {
		fireUnnamed()
		return
	}
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
		case "listen":
			var err error
			listener, err = probesock.Listen()
			check(err)
		case "hush":
			check(listener.Close())
		case "record":
			var err error
			recorder, err = proberec.Create(strings.Fields(in.Text())[1], 0, subject)
			check(err)
			recorder.Start()
		case "await", "idle":
			for done.Enabled() != (word == "await") {
				time.Sleep(time.Millisecond)
			}
			subject.Probes() // waits until the other probes are enabled, too, and none is so in part
		case "late":
			p := stapsdt.NewProvider("late")
			event := stapsdt.NewProbe1[int](p, "event", "n")
			for i := range n {
				event.Fire(i)
			}
			p.Close()
		case "exec":
			check(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
		case "quit":
			return
		default:
			log.Fatalf("%q is no command", in.Text())
		}
	}
}

// fireUnnamed fires a typed probe, and one whose types are known only at run time, with each line.
func fireUnnamed() {
	app := stapsdt.NewProvider("unnamed")
	request := stapsdt.NewProbe3[string, int32, time.Duration](app, "request__done")
	dynamic, err := app.AddProbe("dynamic", stapsdt.Int8, stapsdt.String)
	check(err)
	check(app.Load())
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		request.Fire(in.Text(), 200, time.Second)
		check(dynamic.Fire(-1, in.Text()))
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

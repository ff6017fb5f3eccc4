//go:build linux

// Command subject is the Go program that the table of scripts/bench.sh measures
// while a tracer is attached to it. For each line "ROW N" it fires the row's
// probe N times, and answers with the nanoseconds that took; for "allocs ROW N",
// with the allocations.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt"

	"golang.org/x/sys/unix"
)

var (
	bench     = stapsdt.NewProvider("bench")
	two       = stapsdt.NewProbe2[uint64, int32](bench, "two")
	text      = stapsdt.NewProbe2[string, int32](bench, "text")
	anyTwo, _ = bench.AddProbe("any", stapsdt.Uint64, stapsdt.Int32)
)

// path has 16 bytes.
var path = "/index/page.html"

var rows = map[string]func(n int){
	"two": func(n int) {
		for i := range n {
			two.Fire(uint64(i), 200)
		}
	},
	"text": func(n int) {
		for range n {
			text.Fire(path, 200)
		}
	},
	"any": func(n int) {
		for i := range n {
			if err := anyTwo.Fire(uint64(i), int32(200)); err != nil {
				log.Fatal(err)
			}
		}
	},
}

// now is this thread's time on a processor: what other jobs, and other threads of
// the Go runtime, take of the machine is not in it.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		log.Fatal(err)
	}
	return t.Nano()
}

func allocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func main() {
	log.SetFlags(0)
	if err := bench.Load(); err != nil {
		log.Fatal(err)
	}
	defer bench.Close()
	runtime.LockOSThread()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		line, count := strings.CutPrefix(in.Text(), "allocs ")
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			log.Fatal(err)
		}
		if count {
			before := allocs()
			rows[name](n)
			fmt.Println("took", allocs()-before)
			continue
		}
		start := now()
		rows[name](n)
		fmt.Println("took", now()-start)
	}
}

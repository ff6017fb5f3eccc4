//go:build linux

// Command subject is the Go program that the table of scripts/bench.sh measures
// while a tracer is attached to it. For each line "ROW N" it fires the row's
// probe N times, and answers with the nanoseconds and the allocations that took.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	"github.com/go-stapsdt/stapsdt"
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

func main() {
	log.SetFlags(0)
	if err := bench.Load(); err != nil {
		log.Fatal(err)
	}
	defer bench.Close()
	// One thread: what the scheduler does to others is not in the figures.
	runtime.LockOSThread()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var name string
		var n int
		if _, err := fmt.Sscan(in.Text(), &name, &n); err != nil {
			log.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		rows[name](n)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		fmt.Println("took", took.Nanoseconds(), after.Mallocs-before.Mallocs)
	}
}

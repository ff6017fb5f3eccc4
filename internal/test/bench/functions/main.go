//go:build linux

// Command functions is the Go program whose functions scripts/bench.sh traces. It has no probes.
//
//	functions calls              for each line "ROW N", calls a function N times, and answers with the nanoseconds
//	functions serve              serves HTTP until its standard input ends
//	functions load PORT SECONDS  keeps such a server busy, and prints what it has answered
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// rows are the functions that are called. The sum of what they return is used, so that they are not left out.
var rows = map[string]func(n int) int{"framed": framed, "leaf": leaf, "lined": lined}

// framed has a frame, because it calls another function.
//
//go:noinline
func framed(n int) int { return other(n) + 1 }

//go:noinline
func other(n int) int { return n ^ 5 }

// leaf has none.
//
//go:noinline
func leaf(n int) int { return n * 3 }

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "calls":
		calls()
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 4 && os.Args[1] == "load":
		seconds, err := strconv.ParseFloat(os.Args[3], 64)
		if err != nil {
			log.Fatal(err)
		}
		load(os.Args[2], time.Duration(seconds*float64(time.Second)))
	default:
		log.Fatal("usage: functions calls | serve | load PORT SECONDS")
	}
}

func calls() {
	runtime.LockOSThread()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var name string
		var n int
		if _, err := fmt.Sscan(in.Text(), &name, &n); err != nil || rows[name] == nil {
			log.Fatalf("no row %q: %v", in.Text(), err)
		}
		f, sum := rows[name], 0
		start := now()
		for i := range n {
			sum += f(i)
		}
		fmt.Println("took", now()-start, sum)
	}
}

// now is this thread's time on a processor, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		log.Fatal(err)
	}
	return t.Nano()
}

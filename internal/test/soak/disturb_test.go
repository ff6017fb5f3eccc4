//go:build linux && (amd64 || arm64)

package soak

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"regexp"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"
)

// disturbances go on until end is closed, and happen at least once.
var disturbances = []func(end <-chan struct{}) error{profiler, collector, procs}

// repeat does something until end is closed.
func repeat(end <-chan struct{}, do func(n int)) error {
	for n := 0; ; n++ {
		do(n)
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// collector collects garbage without pause.
func collector(end <-chan struct{}) error { return repeat(end, func(int) { runtime.GC() }) }

// procs changes GOMAXPROCS, from one to twice what it was, which stops the world.
func procs(end <-chan struct{}) error {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	return repeat(end, func(n int) {
		runtime.GOMAXPROCS(1 + n%(2*before))
		time.Sleep(time.Millisecond)
	})
}

// profiler has SIGPROF come a thousand times for each second of processor time, or as often as the kernel has ticks.
func profiler(end <-chan struct{}) error {
	var profile bytes.Buffer
	// The profiler's own rate is 100; it keeps one that was set, and says so on standard error.
	runtime.SetCPUProfileRate(1000)
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	start := processorTime()
	<-end
	// A SIGPROF comes for certain in this time, at the slowest tick of a kernel (10 ms). Firers go on meanwhile.
	for processorTime()-start < 100*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	pprof.StopCPUProfile()
	unzipped, err := gzip.NewReader(&profile)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(unzipped)
	if err == nil && !functionName.Match(content) {
		err = errors.New("no SIGPROF")
	}
	return err
}

// functionName finds a function that every stack of this program has one of. The names are in a profile only if a stack is.
var functionName = regexp.MustCompile(`runtime\.|testing\.|WaitGroup`)

// processorTime is how long this process's threads have run.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails for other arguments only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build linux && (amd64 || arm64)

package soak

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"
)

// disturbance goes on until end is closed, and tells what it did. It is an error if that was nothing.
type disturbance func(end <-chan struct{}) (note string, err error)

// disturbances are all of them.
var disturbances = []disturbance{profiler, collector, procs}

// repeat does something until end is closed, and counts.
func repeat(end <-chan struct{}, what string, do func(n int)) (string, error) {
	for n := 0; ; n++ {
		do(n) // at least once, in a phase however short
		select {
		case <-end:
			return fmt.Sprint(n+1, " ", what), nil
		default:
		}
	}
}

// collector collects garbage without pause.
func collector(end <-chan struct{}) (string, error) {
	return repeat(end, "collections", func(int) { runtime.GC() })
}

// procs changes GOMAXPROCS, from one to twice what it was, which stops the world.
func procs(end <-chan struct{}) (string, error) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	return repeat(end, "changes of GOMAXPROCS", func(n int) {
		runtime.GOMAXPROCS(1 + n%(2*before))
		time.Sleep(time.Millisecond)
	})
}

// profiler has SIGPROF come a thousand times for each second of processor time, or as often as the kernel has ticks.
func profiler(end <-chan struct{}) (string, error) {
	var profile bytes.Buffer
	// The profiler's own rate is 100; it keeps one that was set, and says so on standard error.
	runtime.SetCPUProfileRate(1000)
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return "", err
	}
	start := processorTime()
	<-end
	for processorTime()-start < enoughToProfile {
		time.Sleep(time.Millisecond) // firers go on until every disturbance has ended
	}
	pprof.StopCPUProfile()
	unzipped, err := gzip.NewReader(&profile)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(unzipped)
	if err == nil && !functionName.Match(content) {
		err = errors.New("no SIGPROF")
	}
	return fmt.Sprint(processorTime()-start, " of processor time profiled"), err
}

// functionName finds a function that every stack of this program has one of. The names are in a profile only if a stack is.
var functionName = regexp.MustCompile(`runtime\.|testing\.|WaitGroup`)

// enoughToProfile is the processor time in which a SIGPROF comes for certain, at the slowest tick of a kernel (10 ms).
const enoughToProfile = 100 * time.Millisecond

// processorTime is how long this process's threads have run.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails for other arguments only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

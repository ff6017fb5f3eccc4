//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"
)

// disturbance goes on until end is closed, and tells what it did. It is an error if that was nothing.
type disturbance func(end <-chan struct{}) (note string, err error)

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
	n, err := signals(&profile)
	if err == nil && n == 0 {
		err = errors.New("no SIGPROF")
	}
	return fmt.Sprint(n, " SIGPROF"), err
}

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

// signals adds up how often the stacks of a profile were seen: the first value of each sample, in the words of
// profile.proto, of which a profile has many in its field 2.
func signals(profile io.Reader) (n uint64, err error) {
	unzipped, err := gzip.NewReader(profile)
	if err != nil {
		return 0, err
	}
	message, err := io.ReadAll(unzipped)
	if err != nil {
		return 0, err
	}
	const samples, values = 2, 2
	err = eachField(message, samples, func(_ uint64, sample []byte) error {
		first := true
		return eachField(sample, values, func(count uint64, packed []byte) error {
			if packed != nil { // an encoder may do either
				count, _ = binary.Uvarint(packed)
			}
			if first {
				n += count
			}
			first = false
			return nil
		})
	})
	return n, err
}

// eachField calls do with each field of a number in a message of protocol buffers: with its bytes, or with its value.
func eachField(message []byte, number uint64, do func(value uint64, bytes []byte) error) error {
	for len(message) > 0 {
		key, size := binary.Uvarint(message)
		value, more := binary.Uvarint(message[max(size, 0):])
		end := size + more
		isBytes := key&7 == 2 // and value is how many
		if isBytes {
			end += int(value)
		}
		if size <= 0 || more <= 0 || key&7 != 0 && !isBytes || end > len(message) {
			return fmt.Errorf("the profile is no profile at field %d", key>>3)
		}
		if key>>3 == number {
			var data []byte
			if isBytes {
				data = message[size+more : end]
			}
			if err := do(value, data); err != nil {
				return err
			}
		}
		message = message[end:]
	}
	return nil
}

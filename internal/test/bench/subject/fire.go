//go:build linux

package main

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"
)

// The probes of the provider that the tracer is attached to.
var (
	bench     = stapsdt.NewProvider("bench")
	zero      = stapsdt.NewProbe0(bench, "zero")
	two       = stapsdt.NewProbe2[uint64, int32](bench, "two")
	text      = stapsdt.NewProbe2[string, int32](bench, "text")
	six       = stapsdt.NewProbe6[string, int32, string, uint64, string, bool](bench, "six")
	fields    = stapsdt.NewProbeOf[request](bench, "struct")
	anyTwo, _ = bench.AddProbe("any", stapsdt.Uint64, stapsdt.Int32)
)

// request has the arguments of text.
type request struct {
	Path   string
	Status int32
}

// path has 16 bytes.
var path = "/index/page.html"

func enabled(n int) {
	for range n {
		if two.Enabled() {
			panic("a tracer is attached")
		}
	}
}

func fireZero(n int) {
	for range n {
		zero.Fire()
	}
}

func fireTwo(n int) {
	for i := range n {
		two.Fire(uint64(i), 200)
	}
}

func fireText(n int) {
	for range n {
		text.Fire(path, 200)
	}
}

func fireStruct(n int) {
	for range n {
		fields.Fire(request{path, 200})
	}
}

func fireSix(n int) {
	for i := range n {
		six.Fire(path, 200, path, uint64(i), path, true)
	}
}

func fireAny(n int) {
	for i := range n {
		check(anyTwo.Fire(uint64(i), int32(200)))
	}
}

func fireFunc(n int) {
	for i := range n {
		text.FireFunc(func() (string, int32) { return path + strconv.Itoa(i), 200 })
	}
}

// together does something in so many goroutines at once, each n times and on a thread of
// its own, and returns the mean of what each took.
func together(goroutines, n int, f func(n int)) int64 {
	var total, ready atomic.Int64
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for ready.Add(1); ready.Load() < int64(goroutines); {
				runtime.Gosched()
			}
			total.Add(timed(f)(n))
		})
	}
	group.Wait()
	return total.Load() / int64(goroutines)
}

// logger is what programs have instead of probes: a level that is off.
var logger = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}))

func logDebug(n int) {
	for i := range n {
		logger.Debug("request", "id", uint64(i), "status", 200)
	}
}

func logAttrs(n int) {
	ctx := context.Background()
	for i := range n {
		logger.LogAttrs(ctx, slog.LevelDebug, "request", slog.Uint64("id", uint64(i)), slog.Int("status", 200))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

type jobStart struct {
	Name     string
	Priority int8
}

type jobEnd struct {
	Rows  uint32
	Ratio float64
	Last  bool
}

// exportee fires the probes of a provider:
//
//	say TEXT     fires said with a text, which is quoted as in Go
//	many FROM TO fires said with a text for each number
//	level N      fires level with a number
//	job N        begins and ends N spans, of 1 ms each
//	begin N      begins N spans
//	storm N T    fires said N times in each of T goroutines
//	run T        fires said in each of T goroutines from when it is enabled until halt
//	halt         ends that, and prints how often it has fired
//
// If times is given, it fires said that often, and ends. With VERSION=2 in its environment, the text of said is a number, and that of level has 8 bytes.
func exportee(name, times string) {
	provider := stapsdt.NewProvider(name)
	said, level := exported(provider)
	job := span.NewOperation[jobStart, jobEnd](provider, "job")
	check(provider.Load())
	if times != "" {
		n, _ := strconv.Atoi(times)
		for range n {
			said("once", 1)
		}
		return
	}
	var running sync.WaitGroup
	var fired atomic.Int64
	var halted atomic.Bool
	commands{
		"say": func(o order) {
			text, err := strconv.Unquote(o.text)
			check(err)
			said(text, uint64(len(text)))
		},
		"many": func(o order) {
			for i := o.n; i < o.m; i++ {
				said(strconv.Itoa(i), 1)
			}
		},
		"level": func(o order) { level(o.n) },
		"job": func(o order) {
			for i := range o.n {
				ctx, outer := job.Start(context.Background(), jobStart{"outer", -1})
				_, inner := job.Start(ctx, jobStart{"inner", 1})
				time.Sleep(time.Millisecond)
				inner.End(jobEnd{uint32(i), .5, i == o.n-1}, nil)
				outer.End(jobEnd{}, errors.New("no luck"))
			}
		},
		"begin": func(o order) {
			for range o.n {
				job.Start(context.Background(), jobStart{"begun", 0})
			}
		},
		"run": func(o order) {
			for range o.n {
				running.Go(func() {
					await(provider, "said", &halted)
					for i := 0; !halted.Load(); i++ {
						said("storm"+strconv.Itoa(i%3), 2)
						fired.Add(1)
					}
				})
			}
		},
		"halt": func(order) {
			halted.Store(true)
			running.Wait()
			fmt.Println("fired", fired.Load())
		},
	}.loop()
}

// await waits until a probe is enabled or halted is set, at once and without sleeping.
func await(provider *stapsdt.Provider, name string, halted *atomic.Bool) {
	for _, probe := range provider.Probes() {
		for probe.Name() == name && !probe.Enabled() && !halted.Load() {
		}
	}
}

// exported adds the probes said and level, and returns what fires them.
func exported(provider *stapsdt.Provider) (said func(text string, bytes uint64), level func(depth int)) {
	if os.Getenv("VERSION") == "2" {
		numbered := stapsdt.NewProbe2[int16, uint64](provider, "said", "text", "bytes")
		deep := stapsdt.NewProbe1[int64](provider, "level", "depth")
		return func(text string, bytes uint64) {
			n, _ := strconv.Atoi(text)
			numbered.Fire(int16(n), bytes)
		}, func(depth int) { deep.Fire(int64(depth)) }
	}
	texts := stapsdt.NewProbe2[string, uint64](provider, "said", "text", "bytes")
	shallow := stapsdt.NewProbe1[int32](provider, "level", "depth")
	return texts.Fire, func(depth int) { shallow.Fire(int32(depth)) }
}

// Command exportee fires probes of the provider that its first argument names, as it is told
// on standard input, and prints "ok" when that is done:
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
// With a second argument, it fires said so many times and ends. With VERSION=2 in its
// environment, the text of said is a number, and that of level has 8 bytes.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
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

func main() {
	provider := stapsdt.NewProvider(os.Args[1])
	said, level := probes(provider)
	job := span.New[jobStart, jobEnd](provider, "job")
	if err := provider.Load(); err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 2 {
		n, _ := strconv.Atoi(os.Args[2])
		for range n {
			said("once", 1)
		}
		return
	}
	fmt.Println("ready")
	var running sync.WaitGroup
	var fired atomic.Int64
	var halted atomic.Bool
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		word, rest, _ := strings.Cut(in.Text(), " ")
		var n, m int
		fmt.Sscan(rest, &n, &m)
		switch word {
		case "say":
			text, err := strconv.Unquote(rest)
			if err != nil {
				log.Fatal(err)
			}
			said(text, uint64(len(text)))
		case "many":
			for i := n; i < m; i++ {
				said(strconv.Itoa(i), 1)
			}
		case "level":
			level(n)
		case "job":
			for i := range n {
				ctx, outer := job.Start(context.Background(), jobStart{"outer", -1})
				_, inner := job.Start(ctx, jobStart{"inner", 1})
				time.Sleep(time.Millisecond)
				inner.End(jobEnd{uint32(i), .5, i == n-1}, nil)
				outer.End(jobEnd{}, errors.New("no luck"))
			}
		case "begin":
			for range n {
				job.Start(context.Background(), jobStart{"begun", 0})
			}
		case "storm":
			var wg sync.WaitGroup
			for range m {
				wg.Go(func() {
					for i := range n {
						said("storm"+strconv.Itoa(i%3), 2)
					}
				})
			}
			wg.Wait()
		case "run":
			for range n {
				running.Go(func() {
					enabled(provider, "said", &halted)
					for i := 0; !halted.Load(); i++ {
						said("storm"+strconv.Itoa(i%3), 2)
						fired.Add(1)
					}
				})
			}
		case "halt":
			halted.Store(true)
			running.Wait()
			fmt.Println("fired", fired.Load())
		default:
			log.Fatalf("%q is no command", in.Text())
		}
	}
}

// enabled waits until a probe is enabled or halted is set, at once and without sleeping.
func enabled(provider *stapsdt.Provider, name string, halted *atomic.Bool) {
	for _, probe := range provider.Probes() {
		for probe.Name() == name && !probe.Enabled() && !halted.Load() {
		}
	}
}

// probes adds the probes said and level, and returns what fires them.
func probes(provider *stapsdt.Provider) (said func(text string, bytes uint64), level func(depth int)) {
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

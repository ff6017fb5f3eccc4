package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"

	"golang.org/x/sys/unix"
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
	At    time.Time
	Ok    bool
	Large [1024]byte
	Last  int
}

func newRequest(n int) *request {
	r := &request{Path: fmt.Sprintf("/item/%d", n), Status: int32(-n), Flags: [3]uint8{1, 2, byte(n)}, Took: time.Duration(n) * time.Second, Ok: true, Last: n}
	r.Inner.Ratio, r.At = float64(n)/2, time.Unix(int64(n), 0)
	return r
}

// subject does this:
//
//	fire N       fires request__done N times, with the numbers of the fires
//	handle N     fires handled N times, with a pointer to a struct
//	storm N T    fires tick N times in each of T goroutines
//	unload, load
//	listen, hush lets others watch it without root, or no longer
//	record FILE  records to a file
//	map FILE     maps a file as a library is mapped
//	hide         hides its files and its memory from its own user
//	await, idle  waits until request__done is enabled, or not
//	late N       fires the probe of a new provider, late:event, N times
//	exec         starts this program again, in the same process
//	quit
func subject(memfd bool) {
	var options []stapsdt.Option
	if memfd {
		options = append(options, stapsdt.WithMemfd())
	}
	subject := stapsdt.NewProvider("subject", options...)
	done := stapsdt.NewProbe4[string, int32, time.Duration, bool](subject, "request__done", "path", "status", "elapsed", "cached")
	handled := stapsdt.NewProbeOf[handledArgs](subject, "handled")
	tick := stapsdt.NewProbe2[uint64, uint8](subject, "tick")
	check(subject.Load())
	wait := func(enabled bool) {
		for done.Enabled() != enabled {
			time.Sleep(time.Millisecond)
		}
		subject.Probes() // waits until the other probes are enabled, too, and none is so in part
	}
	fires := 0
	var listener io.Closer
	var recorder *proberec.Recorder // which would end if nothing referred to it
	commands{
		"fire": func(o order) {
			for range o.n {
				done.Fire(fmt.Sprintf("/item/%d", fires), int32(fires%7-3), time.Duration(fires)*time.Millisecond, fires%2 == 0)
				fires++
			}
		},
		"handle": func(o order) {
			for i := range o.n {
				handled.Fire(handledArgs{newRequest(i), i})
			}
		},
		"storm": func(o order) {
			var all sync.WaitGroup
			for g := range o.m {
				all.Go(func() {
					for i := range o.n {
						tick.Fire(uint64(i), uint8(g))
					}
				})
			}
			all.Wait()
		},
		"unload": func(order) { check(subject.Unload()) },
		"load":   func(order) { check(subject.Load()) },
		"listen": func(order) {
			var err error
			listener, err = probesock.Listen()
			check(err)
		},
		"hush": func(order) { check(listener.Close()) },
		"record": func(o order) {
			var err error
			recorder, err = proberec.Create(o.text, 0, subject)
			check(err)
			recorder.Start()
		},
		"map": func(o order) {
			f, err := os.Open(o.text)
			check(err)
			info, err := f.Stat()
			check(err)
			_, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
			check(err)
		},
		"hide":  func(order) { check(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)) },
		"await": func(order) { wait(true) },
		"idle":  func(order) { wait(false) },
		"late": func(o order) {
			p := stapsdt.NewProvider("late")
			event := stapsdt.NewProbe1[int](p, "event", "n")
			for i := range o.n {
				event.Fire(i)
			}
			p.Close()
		},
		"exec": func(order) { check(syscall.Exec("/proc/self/exe", os.Args, os.Environ())) },
		"quit": func(order) { os.Exit(0) },
	}.loop()
}

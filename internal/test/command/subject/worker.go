package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"

	"golang.org/x/sys/unix"
)

const threads = 8

// worker starts and ends jobs:
//
//	jobs N       N jobs, one after the other
//	begin N      N jobs that never end
//	end N        the ends of N jobs that have not started
//	crowd N      N goroutines at the same time, most of which have a job that moves between
//	             threads, of which every hundredth moves for certain; prints how many ended on another thread
//	             than they started on
//	storm N      as jobs, and prints the nanoseconds of a processor that a job took
//	fail         a job that ends with an error
//
// In a crowd, every tenth goroutine starts a job and ends without ending it, and the one after
// it ends a job that it has not started.
func worker() {
	provider := stapsdt.NewProvider("worker")
	start := stapsdt.NewProbe3[uint64, uint64, string](provider, "job__start", "id", "began", "name")
	end := stapsdt.NewProbe3[uint64, uint64, string](provider, "job__end", "id", "ended", "error")
	check(provider.Load())
	runtime.GOMAXPROCS(threads)
	var last atomic.Uint64        // the ID of the last job
	begin := func() (id uint64) { // a job, whose name is one of three
		id = last.Add(1)
		start.Fire(id, id, [...]string{"copy", "move", "remove"}[id%3])
		return id
	}
	jobs := func(o order) {
		for range o.n {
			id := begin()
			end.Fire(id, id, "")
		}
	}
	one := func(i int) (moved bool) { // what a goroutine of a crowd does
		switch i % 10 {
		case 8:
			begin()
			return false
		case 9:
			id := last.Add(1)
			end.Fire(id, id, "")
			return false
		}
		id := begin()
		thread := unix.Gettid()
		time.Sleep(time.Millisecond + rand.N(10*time.Millisecond))
		for tries := 0; unix.Gettid() == thread && (tries < 10 || i%100 == 0); tries++ {
			runtime.Gosched() // to the queue that all threads take from
		}
		end.Fire(id, id, "")
		return unix.Gettid() != thread
	}
	commands{
		"jobs": jobs,
		"begin": func(o order) {
			for range o.n {
				begin()
			}
		},
		"end": func(o order) {
			for range o.n {
				end.Fire(last.Add(1), 0, "")
			}
		},
		"crowd": func(o order) { fmt.Println("moved", crowd(o.n, one)) },
		"storm": func(o order) {
			runtime.LockOSThread()
			began := processor()
			jobs(o)
			fmt.Println("took", (processor()-began)/int64(o.n))
			runtime.UnlockOSThread()
		},
		"fail": func(order) {
			id := begin()
			end.Fire(id, id, "no space")
		},
	}.loop()
}

// processor is this thread's time on a processor, in nanoseconds: what other programs take of
// the machine is not in it.
func processor() int64 {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return t.Nano()
}

// crowd lets n goroutines do something, and returns how many of them have moved to another thread meanwhile.
func crowd(n int, one func(i int) (moved bool)) int64 {
	var all sync.WaitGroup
	var moved atomic.Int64
	var over atomic.Bool
	defer over.Store(true)
	for range threads { // that are busy, and take what has yielded
		go func() {
			for !over.Load() {
				runtime.Gosched()
			}
		}()
	}
	for i := range n {
		all.Go(func() {
			if one(i) {
				moved.Add(1)
			}
		})
	}
	all.Wait()
	return moved.Load()
}

// Command worker starts and ends jobs as it is told on standard input, and prints "ok" when
// that is done:
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
package main

import (
	"bufio"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"

	"golang.org/x/sys/unix"
)

var (
	worker = stapsdt.NewProvider("worker")
	start  = stapsdt.NewProbe3[uint64, uint64, string](worker, "job__start", "id", "began", "name")
	end    = stapsdt.NewProbe3[uint64, uint64, string](worker, "job__end", "id", "ended", "error")
)

const threads = 8

// last is the id of the last job.
var last atomic.Uint64

func main() {
	if err := worker.Load(); err != nil {
		log.Fatal(err)
	}
	runtime.GOMAXPROCS(threads)
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		var word string
		var n int
		fmt.Sscan(in.Text(), &word, &n)
		switch word {
		case "jobs":
			jobs(n)
		case "begin":
			for range n {
				begin()
			}
		case "end":
			for range n {
				end.Fire(last.Add(1), 0, "")
			}
		case "crowd":
			fmt.Println("moved", crowd(n))
		case "storm":
			runtime.LockOSThread()
			began := processor()
			jobs(n)
			fmt.Println("took", (processor()-began)/int64(n))
			runtime.UnlockOSThread()
		case "fail":
			id := begin()
			end.Fire(id, id, "no space")
		default:
			log.Fatalf("%q is no command", in.Text())
		}
	}
}

// begin starts a job, whose name is one of three.
func begin() (id uint64) {
	id = last.Add(1)
	start.Fire(id, id, [...]string{"copy", "move", "remove"}[id%3])
	return id
}

func jobs(n int) {
	for range n {
		id := begin()
		end.Fire(id, id, "")
	}
}

// processor is this thread's time on a processor, in nanoseconds: what other programs take of
// the machine is not in it.
func processor() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		log.Fatal(err)
	}
	return t.Nano()
}

func crowd(n int) (moved int64) {
	var all sync.WaitGroup
	var others atomic.Int64
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
			switch i % 10 {
			case 8:
				begin()
				return
			case 9:
				id := last.Add(1)
				end.Fire(id, id, "")
				return
			}
			id := begin()
			thread := unix.Gettid()
			time.Sleep(time.Millisecond + rand.N(10*time.Millisecond))
			for tries := 0; unix.Gettid() == thread && (tries < 10 || i%100 == 0); tries++ {
				runtime.Gosched() // to the queue that all threads take from
			}
			end.Fire(id, id, "")
			if unix.Gettid() != thread {
				others.Add(1)
			}
		})
	}
	all.Wait()
	return others.Load()
}

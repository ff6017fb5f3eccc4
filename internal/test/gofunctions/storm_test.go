//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var attachments = flag.Int("attachments", 500, "how often TestStorm attaches; 100000 is the long run")

// storm is a program in which the runtime does all that moves, ends and inspects stacks. The functions churn0
// and so on are attached to and detached from, while another tracer counts the calls of work. It ends when it
// is told to, and prints how many calls of work began and returned.
const storm = `package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var calls, returns, others, stopped atomic.Int64

type node struct { next *node; text string }

//go:noinline
func work(n, what int, p *node) int {
	var space [128]byte
	space[n&127] = 1
	calls.Add(1)
	if n == 0 {
		switch what {
		case 1: panic("unwound")
		case 2: runtime.Goexit()
		}
		returns.Add(1)
		return len(p.text) + int(space[0])
	}
	r := work(n-1, what, &node{p, "n"}) + int(space[1])
	returns.Add(1)
	return r
}
CHURNS
//go:noinline
func spin(n int) (sum int) { // without a preemption point
	for i := range n { sum += i ^ n }
	return sum
}

func attempt(i int) {
	defer func() { recover() }()
	work(i*7%200, i%5, &node{text: "x"})
	churn(i)
}

func churner(g int) {
	for i := g; stopped.Load() == 0; i++ {
		if i%5 == 2 {
			done := make(chan bool)
			go func() { defer close(done); attempt(i) }()
			<-done
		} else {
			attempt(i)
		}
		churn(i)
		others.Add(int64(spin(1000) & 1))
		if i%3 == 0 { time.Sleep(time.Millisecond) }
	}
}

func every(pause time.Duration, f func()) {
	for stopped.Load() == 0 { f(); time.Sleep(pause) }
}

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	debug.SetGCPercent(5)
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() { for range signals { others.Add(1) } }()
	var all sync.WaitGroup
	for g := range 8 {
		all.Add(1)
		go func() { defer all.Done(); churner(g) }()
	}
	buffer := make([]byte, 1<<20)
	go every(2*time.Millisecond, runtime.GC)
	go every(time.Millisecond, func() { syscall.Kill(os.Getpid(), syscall.SIGUSR1) })
	go every(3*time.Millisecond, func() { runtime.Stack(buffer, true) })
	go every(0, func() {
		var profile bytes.Buffer
		pprof.StartCPUProfile(&profile)
		time.Sleep(50 * time.Millisecond)
		pprof.StopCPUProfile()
	})
	go every(100*time.Millisecond, func() { runtime.GOMAXPROCS(2 + int(others.Load())&3) })
	go func() { in.ReadString('\n'); stopped.Store(1) }()
	all.Wait()
	fmt.Println("done", calls.Load(), returns.Load())
	in.ReadString('\n')
}
`

// churns is the number of functions that are attached to and detached from.
const churns = 16

// stormSource returns the program, whose churns have frames of different sizes, or none.
func stormSource() string {
	var b strings.Builder
	for i := range churns {
		fmt.Fprintf(&b, `
//go:noinline
func churn%d(n int) int {
	var space [%d]byte
	space[n&7] = byte(n)
	if n <= 0 { return int(space[0]) }
	return churn%d(n-1) + int(space[n&7])
}
`, i, 8<<(i%8), i)
	}
	b.WriteString("\nfunc churn(i int) {\n\tswitch i % 16 {\n")
	for i := range churns {
		fmt.Fprintf(&b, "\tcase %d: churn%d(i %% 100)\n", i, i)
	}
	b.WriteString("\t}\n}\n")
	return strings.Replace(storm, "CHURNS\n", b.String(), 1)
}

// TestStorm attaches to functions and detaches from them again and again while their program does its worst.
// It does not crash, and the calls and returns of a function that is traced all the time count once each.
func TestStorm(t *testing.T) {
	bpf.Need(t)
	testenv.Long(t, "it attaches hundreds of times")
	for _, c := range []struct {
		name  string
		flags []string
		share int // of the attachments
	}{
		{"plain", nil, 1},
		{"race", []string{"-race"}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := launch(t, build(t, stormSource(), nil, c.flags...))
			specs := []string{"go:main.work", "go:main.work:return"}
			count := s.command(specs, append([]string{"count", "-o", "json"}, specs...)...)
			s.Say("")
			begin := time.Now()
			seen := s.churn(*attachments / c.share)
			took := time.Since(begin)
			s.Say("")
			var calls, returns int
			_, err := fmt.Sscan(s.Expect("done", testenv.Patience), &calls, &returns)
			require.NoError(t, err, "it has crashed")
			t.Logf("%d attachments in %v, which saw %d events; %d calls and %d returns were counted", *attachments/c.share, took, seen, calls, returns)
			require.NotZero(t, seen)
			require.Greater(t, calls, returns)
			want := map[string]int{"main.work": calls, "main.work:return": returns}
			got := map[string]int{}
			for _, r := range rows(t, stop(t, count)) {
				got[r.Probe] = r.Count
			}
			assert.Equal(t, want, got)
			for _, p := range s.list("go:main.churn*") {
				assert.False(t, s.probed([]uint64{p.Offset}), "%s is attached to", p.Probe)
			}
		})
	}
}

// churn attaches to the functions churn0 and so on, at their calls and their returns, n times in all and some
// at the same time. It returns how many events were seen.
func (s *subject) churn(n int) (seen uint64) {
	s.t.Helper()
	zero := sdt.Arg{Size: 8, Operand: sdt.Operand{Kind: sdt.OperandConstant}}
	counter, err := bpf.NewCounter(churns, 1, bpf.Arguments{Window: zero, Value: zero, Extra: zero})
	require.NoError(s.t, err)
	defer counter.Close()
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, churns)
	for i, p := range s.list("go:main.churn?", "go:main.churn1?") {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; left.Add(-1) >= 0; round++ {
				var sites []bpf.Site
				for k, at := range append([]uint64{p.Offset}, p.Returns...) {
					if round%3 != 2 || k == 0 { // sometimes only calls
						sites = append(sites, bpf.Site{Site: sdt.Site{Offset: at}, Cookie: uint64(i)})
					}
				}
				link, err := counter.Attach(s.path, sites)
				if err == nil {
					if round%4 == 0 {
						time.Sleep(time.Millisecond)
					}
					err = link.Close()
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	all.Wait()
	close(errs)
	require.NoError(s.t, <-errs)
	for i := range uint64(churns) {
		tally, err := counter.Tally(i, 0)
		require.NoError(s.t, err)
		seen += tally.Count
	}
	return seen
}

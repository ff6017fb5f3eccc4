//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uneven is a program that calls one function now and then and, from the first line or the end of its input on, all the
// time. It calls another one now and then.
const uneven = `package main

import (
	"os"
	"sync/atomic"
	"time"
)

var (
	storm atomic.Bool
	sink  int
)

//go:noinline
func leaf(n int) int { return n*3 + 1 }

//go:noinline
func hot(n int) int { return leaf(n) + leaf(n+1) }

//go:noinline
func rare(d time.Duration) { time.Sleep(d) }

func main() {
	go func() {
		os.Stdin.Read(make([]byte, 1))
		storm.Store(true)
	}()
	for {
		calls := 1
		if storm.Load() {
			calls = 1_000_000
		} else { // what a few calls cost is little of what the program uses
			for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); { sink++ }
		}
		for n := range calls {
			sink += hot(n)
		}
		rare(time.Millisecond)
	}
}
`

// budgeted is what a run with --budget has said.
type budgeted struct {
	counts, since map[string]int // by probe, and those since the last one was detached from
	detached      []string
	at            time.Time
	marked        map[string]time.Time // the probes that the rows since then call detached
	cost          float64
	said          string
}

// runBudgeted runs a command on a process until it ends or has said enough.
func runBudgeted(t *testing.T, pid int, enough func(b budgeted) bool, args ...string) (b budgeted) {
	t.Helper()
	cmd := tracetest.Command(t, exec.Command(stapsdt(t), append(args, "-o", "json", "-p", fmt.Sprint(pid))...))
	require.Eventually(t, func() bool {
		b = parseBudgeted(t, cmd.Lines())
		return enough != nil && enough(b) || cmd.Ended()
	}, testenv.Patience, 10*time.Millisecond, "%s", cmd.Dump())
	cmd.Signal(syscall.SIGINT)
	require.NoError(t, cmd.Wait(testenv.Patience), cmd.Dump())
	b = parseBudgeted(t, cmd.Lines())
	b.said = cmd.Dump()
	t.Logf("%v", b)
	return b
}

func parseBudgeted(t *testing.T, lines []string) (b budgeted) {
	t.Helper()
	b.counts, b.since, b.marked = map[string]int{}, map[string]int{}, map[string]time.Time{}
	for _, line := range lines {
		var row struct {
			Time     time.Time
			Probe    string
			Count    int
			Detached []string
			Cost     float64
			// DetachedAt is in rows.
			DetachedAt *time.Time `json:"detached_at"`
		}
		objects.Decode(t, line, &row)
		if row.Detached != nil {
			b.detached, b.at, b.cost = append(b.detached, row.Detached...), row.Time, row.Cost
			clear(b.since)
			continue
		}
		n := max(row.Count, 1) // lines of trace have no count
		b.counts[row.Probe] += n
		b.since[row.Probe] += n
		if row.DetachedAt != nil {
			b.marked[row.Probe] = *row.DetachedAt
		}
	}
	return b
}

// TestBudget: the function that is called all the time is detached from, and stays so. The other one
// is not. If nothing is left, the command ends.
func TestBudget(t *testing.T) {
	testenv.NeedsRoot(t)
	program := exec.Command(build(t, uneven, nil))
	require.NoError(t, program.Start())
	defer func() { program.Process.Kill(); program.Wait() }()
	pid := program.Process.Pid

	for _, verb := range []string{"count", "trace"} {
		t.Run(verb, func(t *testing.T) {
			first := make(chan time.Time, 1)
			hot := siteOf(t, pid, "main.hot")
			go func() {
				for began := time.Now(); !hot() && time.Since(began) < testenv.Patience; {
					time.Sleep(time.Millisecond)
				}
				first <- time.Now()
			}()
			args := []string{verb, "go:main.hot", "go:main.hot:return", "go:main.rare", "--budget", "1%"}
			if verb == "count" {
				args = append(args, "-i", "100ms")
			}
			b := runBudgeted(t, pid, func(b budgeted) bool { return len(b.detached) > 0 && b.since["main.rare"] > 5 }, args...)
			assert.Equal(t, []string{"go:main.hot", "go:main.hot:return"}, b.detached)
			t.Run("time", func(t *testing.T) {
				testenv.Measures(t, "time")
				testenv.Figure(t, "detached after", b.at.Sub(<-first).Seconds(), 1, "s")
			})
			if verb == "count" {
				assert.Equal(t, map[string]time.Time{"main.hot": b.at, "main.hot:return": b.at}, b.marked)
			}
			assert.Greater(t, b.cost, 0.01)
			assert.Contains(t, b.said, "detached from go:main.hot, because the probes took ")
			assert.Contains(t, b.said, "but --budget allows 1 %")
			assert.Positive(t, b.counts["main.hot"])
			assert.False(t, hot())
		})
	}
	t.Run("nothing is left", func(t *testing.T) {
		b := runBudgeted(t, pid, nil, "latency", "go:main.hot", "--budget", "1%", "-d", "1h")
		assert.Equal(t, []string{"go:main.hot", "go:main.hot:return"}, b.detached)
	})
	t.Run("affordable", func(t *testing.T) {
		b := runBudgeted(t, pid, func(b budgeted) bool { return b.counts["main.rare"] > 50 }, "count", "go:main.rare", "--budget", "20%", "-i", "100ms")
		assert.Empty(t, b.detached)
		assert.Contains(t, b.said, "the probes took ")
	})
}

// siteOf returns a function that reports whether the kernel has put a breakpoint where the calls of a function are seen.
func siteOf(t testing.TB, pid int, name string) func() bool {
	out := tracetest.Must(exec.Command(stapsdt(t), "list", "-o", "json", "-p", fmt.Sprint(pid), "go:"+name).Output())(t)
	var fn struct{ Offset uint64 }
	objects.Decode(t, string(out), &fn)
	const start = 0x400000 // of a program that is not a PIE
	memory := tracetest.Must(os.Open(fmt.Sprintf("/proc/%d/mem", pid)))(t)
	t.Cleanup(func() { memory.Close() })
	return func() bool {
		var b [4]byte
		_, err := memory.ReadAt(b[:], int64(start+fn.Offset))
		return err == nil && isBreakpoint(b)
	}
}

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
	calls.Add(1) //@ work
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

// TestStorm attaches to functions and lines, and detaches from them, while their program does its worst.
// It does not crash, the calls and returns of a function and a line that are traced all the time count once each, and the
// variables at the line have values that they can have.
func TestStorm(t *testing.T) {
	bpf.Need(t)
	testenv.Long(t, "it attaches hundreds of times")
	for _, c := range []struct {
		name  string
		flags []string
		share int    // of the attachments
		where string // what holds at the line; with -race, a variable there may be old
	}{
		{"plain", nil, 1, "n >= 0 && n < 200 && what >= 0 && what < 5"},
		{"race", []string{"-race"}, 4, "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := launch(t, build(t, stormSource(), nil, c.flags...))
			line := fmt.Sprintf("main.go:%d", linesOf(stormSource())["work"])
			specs := []string{"go:main.work", "go:main.work:return", "go:" + line}
			count := s.command(specs, append([]string{"count", "-o", "json", "--budget", "100%"}, specs...)...)
			plausible := s.command(specs[2:], "count", "-v", "-o", "json", "--budget", "100%", specs[2], "-w", c.where)
			plausible.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience) // the other command has put a breakpoint there, too
			s.Say("")
			begin := time.Now()
			seen := s.churn(*attachments / c.share)
			for end := begin.Add(testenv.Patience); seen == 0 && time.Now().Before(end); {
				seen = s.churn(churns) // on a busy machine, the program may have had no processor yet
			}
			took := time.Since(begin)
			s.Say("")
			var calls, returns int
			_, err := fmt.Sscan(s.Expect("done", testenv.Patience), &calls, &returns)
			require.NoError(t, err, "it has crashed")
			t.Logf("%d attachments in %v, which saw %d events; %d calls and %d returns were counted", *attachments/c.share, took, seen, calls, returns)
			require.NotZero(t, seen)
			require.Greater(t, calls, returns)
			want := map[string]int{"main.work": calls, "main.work:return": returns, line: calls}
			got := map[string]int{}
			for _, r := range rows(t, stop(t, count)) {
				got[r.Probe] = r.Count
			}
			assert.Equal(t, want, got)
			assert.Equal(t, calls, rows(t, stop(t, plausible))[0].Count)
			for _, p := range s.list("go:main.churn*", "go:main.go:1-100000") {
				assert.False(t, s.probed([]uint64{p.Offset}), "%s is attached to", p.Probe)
			}
		})
	}
}

// churn attaches to the functions churn0 and so on, at their calls, lines and returns, n times in all and some
// at the same time. It returns how many events were seen.
func (s *subject) churn(n int) (seen uint64) {
	s.t.Helper()
	zero := sdt.Arg{Size: 8, Operand: sdt.Operand{Kind: sdt.OperandConstant}}
	counter := tracetest.Must(bpf.NewCounter(churns, 1, bpf.Arguments{Window: zero, Value: zero, Extra: zero}))(s.t)
	defer counter.Close()
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, churns)
	lines := s.list("go:main.go:1-100000")
	for i, p := range s.list("go:main.churn?", "go:main.churn1?") {
		inside := []uint64{p.Offset}
		for _, line := range lines {
			if line.Offset > p.Offset && line.Offset < slices.Max(p.Returns) && !slices.Contains(p.Returns, line.Offset) {
				inside = append(inside, line.Offset)
			}
		}
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; left.Add(-1) >= 0; round++ {
				var sites []bpf.Site
				for k, at := range slices.Concat(inside, p.Returns) {
					if round%3 != 2 || k == round%len(inside) { // sometimes only the calls, or a line
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
		tally := tracetest.Must(counter.Tally(i, 0))(s.t)
		seen += tally.Count
	}
	return seen
}

//go:build linux && (amd64 || arm64) && !stapsdt_noload

package stapsdt

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestUnloadUnderFire: 64 goroutines fire while the provider is unloaded and
// loaded under a tracer, 100 times and until at least 1,000 fires have come to a live site; with
// -short unset, ten times as often. Nothing faults, and the tracer has seen what the program has
// fired. Only a fire's own answer, which no exported method
// returns, tells whether it came to a live site: so this test is not among the other
// traced ones, in internal/test/process.
func TestUnloadUnderFire(t *testing.T) {
	testenv.NotEmulated(t, "an emulated program has no sites that the kernel knows")
	p := newProvider(t, "churn")
	event := NewProbe2[string, uint64](p, "event")
	load(t, p)
	stopTracer := traceByBpftrace(t, `usdt:`+p.Path()+`:churn:event { @seen = count(); @sum = sum(arg1); }`)

	var stop atomic.Bool
	var fired, sum atomic.Uint64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := uint64(0); !stop.Load(); i++ {
				value := uint64(g)<<32 + i
				// What Fire does, with its answer.
				if event.Enabled() && event.fire("text", value) {
					fired.Add(1)
					sum.Add(value)
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	// On a busy machine the goroutines get to fire in few of the cycles.
	cycles, enough := 1000, uint64(10_000)
	if testing.Short() {
		cycles, enough = 100, 1000
	}
	for n := 0; n < cycles || fired.Load() < enough; n++ {
		require.NoError(t, p.Unload())
		require.NoError(t, p.Load())
		time.Sleep(100 * time.Microsecond)
	}
	stop.Store(true)
	wg.Wait()
	seen := stopTracer()
	require.Contains(t, seen, fmt.Sprintf("@seen: %d\n", fired.Load()))
	require.Contains(t, seen, fmt.Sprintf("@sum: %d\n", sum.Load()))
	t.Log(fired.Load(), "fires")
}

// attachedMarker is what bpftrace prints, if the environment has a variable of that name,
// when every probe is attached. A site reads as enabled before its program runs.
const attachedMarker = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

// traceByBpftrace runs a program until it has attached, and returns what ends it and
// returns what it has printed.
func traceByBpftrace(t *testing.T, program string) (stop func() string) {
	t.Helper()
	testenv.NeedsRoot(t)
	// 0.17 notes an interrupt that comes while it prints, and looks at the note only when another event comes.
	program += ` interval:s:1 { printf(""); }`
	cmd := exec.Command(testenv.NeedsTool(t, "bpftrace", "bpftrace"), "-e", program)
	cmd.Env = append(os.Environ(), attachedMarker+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout // 0.17 writes the marker to the one, and 0.23 to the other
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	said := bufio.NewReader(out)
	for testenv.Line(t, cmd, said) != attachedMarker {
	}
	return func() string {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		defer time.AfterFunc(testenv.Patience, func() { cmd.Process.Kill() }).Stop()
		all, err := io.ReadAll(said)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		return string(all)
	}
}

// mappings counts the mappings of the images of a provider, and the ranges of all that are parked.
func mappings(t *testing.T, provider string) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, "/"+provider+"-") || strings.Contains(line, "memfd:"+provider) || strings.Contains(line, "stapsdt-parked") {
			n++
		}
	}
	return n
}

// alone reports whether only this test runs in the process. If others do, too, it runs the test in a process of its own, in which
// they leave nothing that the test would count.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "STAPSDT_TEST_ALONE"
	if os.Getenv(variable) == t.Name() || os.Getenv("STAPSDT_TEST_EMULATED") != "" {
		return true
	}
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "no tests to run")
	return false
}

// TestGarbageIsGivenBack: when provider and probes are garbage, so are their
// mappings and descriptors, whether they were closed, unloaded or neither.
func TestGarbageIsGivenBack(t *testing.T) {
	if !alone(t) {
		return
	}
	settle := func() {
		for range 5 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
	}
	settle()
	before, fds := mappings(t, "garbage"), testenv.Descriptors()
	dir := t.TempDir() + "/images"
	func() {
		var all []*Provider // which the collector does not find until all are counted
		for i := range 60 {
			opts := []Option{WithDir(dir)}
			if i%2 == 0 {
				opts = append(opts, WithMemfd())
			}
			p := NewProvider("garbage", opts...)
			all = append(all, p)
			probe := NewProbe1[string](p, "event")
			require.NoError(t, p.Load())
			probe.Fire("x")
			switch i % 3 {
			case 0:
				require.NoError(t, p.Close())
			case 1:
				require.NoError(t, p.Unload())
			}
		}
		require.GreaterOrEqual(t, mappings(t, "garbage"), before+20, "the test sees no mappings")
		runtime.KeepAlive(all)
	}()
	require.Eventually(t, func() bool {
		settle()
		// The memory of parked slots is kept, once a process.
		return mappings(t, "garbage") <= before && testenv.Descriptors() <= fds+1
	}, testenv.Patience, time.Millisecond)

	// A probe keeps its provider's mapping.
	before = mappings(t, "garbage")
	probe := func() *Probe1[int] {
		p := NewProvider("garbage", WithDir(dir))
		probe := NewProbe1[int](p, "event")
		require.NoError(t, p.Load())
		return probe
	}()
	settle()
	require.Equal(t, before+1, mappings(t, "garbage"))
	probe.Fire(1)
	runtime.KeepAlive(probe)
}

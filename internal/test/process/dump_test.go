//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// firing fires from goroutines with stacks of every depth, until the process ends.
func firing() {
	p := stapsdt.NewProvider("dumped")
	event := stapsdt.NewProbe2[string, int](p, "event")
	if err := p.Load(); err != nil {
		fmt.Println("problem:", err)
		os.Exit(1)
	}
	for g := range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for i := 0; ; i++ {
				callerOfFire(event, g, i%50)
			}
		}()
	}
	fmt.Println("firing", p.Path())
}

//go:noinline
func callerOfFire(event *stapsdt.Probe2[string, int], g, depth int) {
	deep(depth, func() error {
		event.Fire("text", g)
		return nil
	})
}

// dumpChild fires until it is killed.
func dumpChild([]string) {
	// No core of it is wanted.
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	firing()
	select {}
}

// profileChild fires, and takes a CPU profile meanwhile.
//
//	FILE
func profileChild(args []string) {
	firing()
	for {
		waitLine()
		file, err := os.Create(args[0])
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Println("problem:", err)
			os.Exit(1)
		}
		time.Sleep(time.Second)
		pprof.StopCPUProfile()
		file.Close()
		fmt.Println("profiled")
	}
}

// startFiring starts a child that fires, attaches to it, and waits until that has
// had an effect.
func startFiring(t *testing.T, child string, opts ...tracetest.ChildOption) (*tracetest.Process, *tracetest.Counter) {
	t.Helper()
	tracetest.NeedUprobes(t)
	p := tracetest.Child(t, child, append(opts, tracetest.WithEnv("STAPSDT_DIR="+t.TempDir()+"/images"))...)
	path := p.Expect("firing ", testenv.Patience)
	notes := tracetest.Must(sdt.ReadFile(path))(t)
	counter := tracetest.Must(tracetest.CountUprobe(path, notes[0].Offset))(t)
	t.Cleanup(func() { counter.Close() })
	require.Eventually(t, func() bool {
		count, err := counter.Count()
		return err == nil && count > 1000
	}, testenv.Patience, time.Millisecond)
	return p, counter
}

// stackOf finds the stack of a goroutine in a dump. A thread that is in a site has no Go stack that could be printed from there.
var stackOf = regexp.MustCompile(`(?m)^goroutine \d+ .*\[.*\]:\n(?:.+\n)*`)

// TestDumpWhileFiring: SIGQUIT dumps the stacks of a program whose threads are
// inside traced Fires, each of them with its Go callers.
func TestDumpWhileFiring(t *testing.T) {
	testenv.NotRaced(t, "in its code a thread has another stack, and the runtime's dump of it crashes")
	inFire, inSites := 0, 0
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		// "crash" has every thread dump its own goroutine, where it stands.
		child, _ := startFiring(t, "dump", tracetest.WithEnv("GOTRACEBACK=crash"))
		child.Signal(syscall.SIGQUIT)
		err := child.Wait(testenv.Patience)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, syscall.SIGABRT, exit.Sys().(syscall.WaitStatus).Signal(), child.Dump())
		text := strings.Join(errorLines(child), "\n")
		require.Contains(t, text, "SIGQUIT: quit")
		for _, bad := range []string{"fatal error", "panic", "unexpected return pc", "traceback stuck", "SIGSEGV", "SIGTRAP"} {
			require.NotContains(t, text, bad)
		}
		stacks := stackOf.FindAllString(text, -1)
		require.Greater(t, len(stacks), 4)
		for _, stack := range stacks {
			if strings.Contains(stack, "unknown pc") {
				inSites++ // whose dump ends there
			} else if strings.Contains(stack, "stapsdt.(*Probe2[...]).fire(") {
				require.Contains(t, stack, "process.callerOfFire")
				inFire++
			}
		}
	}
	if !testing.Short() {
		require.NotZero(t, inFire, "no goroutine was inside Fire")
	}
	t.Log(inFire, "goroutines were in Fire, and", inSites, "threads in a site")
}

// errorLines is what a child wrote to standard error.
func errorLines(child *tracetest.Process) (lines []string) {
	for _, line := range strings.Split(child.Dump(), "\n") {
		if text, ok := strings.CutPrefix(line, "  err| "); ok {
			lines = append(lines, text)
		}
	}
	return append(lines, "")
}

// TestProfileWhileFiring: CPU profiles of a program whose probes are traced can be
// read, and say who fires.
func TestProfileWhileFiring(t *testing.T) {
	file := t.TempDir() + "/profile"
	child, counter := startFiring(t, "profile", tracetest.WithArgs(file))
	before, err := counter.Count()
	require.NoError(t, err)
	// Most of the time passes in the kernel's trampoline, whose code the runtime does not know.
	var out []byte
	for start := time.Now(); !strings.Contains(string(out), "stapsdt.(*Probe2["); {
		require.Less(t, time.Since(start), testenv.Patience, "%s", out)
		child.Say("profile")
		child.Expect("profiled", testenv.Patience)
		out, err = exec.Command("go", "tool", "pprof", "-top", "-cum", file).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	after, err := counter.Count()
	require.NoError(t, err)
	require.Greater(t, after, before+1000, "nothing was traced while the profile was taken")
	caller := regexp.MustCompile(`([0-9.]+)% +\S*process\.callerOfFire\n`).FindStringSubmatch(string(out))
	require.NotNil(t, caller, "%s", out)
	require.NotEqual(t, "0", caller[1])
}

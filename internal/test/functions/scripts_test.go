//go:build linux && (amd64 || arm64)

package functions

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTime: what a function calls is in its inclusive time alone, and recursion counts once.
func TestTime(t *testing.T) {
	inTurn(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "time")
		p.does("work")
		p.does("recursion")
		out := tr.Stop()
		inclusive, exclusive := tracetest.Table(t, out, "inclusive"), tracetest.Table(t, out, "exclusive")
		// 200 ms of the processor in spin and 100 in outer, of which Lua's other threads take a
		// little. In Perl, asking for the time is a function too.
		require.GreaterOrEqual(t, of(inclusive, "spin"), 150_000)
		require.GreaterOrEqual(t, of(inclusive, "outer")-of(inclusive, "spin"), 75_000)
		require.GreaterOrEqual(t, of(exclusive, "outer"), 30_000)
		require.InDelta(t, of(inclusive, "work"), of(exclusive, "work")+of(inclusive, "outer"), 10)
		require.Less(t, of(exclusive, "work"), of(inclusive, "work")/4)
		// Five levels of 20 ms each: counted level by level they would be 300.
		require.GreaterOrEqual(t, of(exclusive, "down"), 99_000)
		require.InDelta(t, of(inclusive, "down"), of(exclusive, "down"), 20)
	})
}

// TestHot: 200 ms of the processor in spin, which outer called, and 100 in outer itself, at 499
// samples a second. In Perl, the function that asks the time is a function too.
func TestHot(t *testing.T) {
	inTurn(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "hot")
		p.does("work")
		samples := tracetest.Table(t, tr.Stop(), "samples")
		spin, outer := 0, 0
		for stack, n := range samples {
			switch functions := strings.Split(stack, ", "); {
			case functions[0] == "spin" && functions[1] == "outer", functions[1] == "spin" && functions[2] == "outer":
				spin += n
			case functions[0] == "outer" && functions[1] == "work", functions[1] == "outer" && functions[2] == "work":
				outer += n
			}
		}
		require.Greater(t, spin, 10, "%v", samples) // PHP goes by the clock, and may have to wait for a processor
		require.Greater(t, outer, 2, "%v", samples)
		require.Greater(t, spin, outer, "%v", samples)
	})
}

// TestMalloc: ten times a mebibyte in one function.
func TestMalloc(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "malloc")
		p.does("memory")
		bytes := tracetest.Table(t, tr.Stop(), "bytes")
		require.GreaterOrEqual(t, of(bytes, "allocate"), 10<<20, "%v", bytes)
		testenv.Figure(t, "bytes of 10 MiB", float64(of(bytes, "allocate")), 11<<20, "B")
		require.Less(t, of(bytes, "memory"), 1<<20)
	})
}

// TestFaults: the pages of ten mebibytes, in one function. They are small ones in the programs
// that the test starts, too.
func TestFaults(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0))
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "faults")
		p.does("memory")
		faults := tracetest.Table(t, tr.Stop(), "faults")
		pages := 10 << 20 / os.Getpagesize()
		require.GreaterOrEqual(t, of(faults, "allocate"), pages*8/10, "%v", faults)
		require.Less(t, of(faults, "memory"), pages/10)
	})
}

// TestLocks: the test has a lock of a file, and the program waits for it. Lua has mutexes only.
func TestLocks(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		file := tracetest.Must(os.Create(filepath.Join(t.TempDir(), "lock")))(t)
		defer file.Close()
		require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
		tr := p.traced(t, "locks")
		p.Say("lock " + file.Name())
		p.Expect("locking", testenv.Patience)
		require.Eventually(t, func() bool {
			locks, err := os.ReadFile("/proc/locks")
			return err == nil && regexp.MustCompile(fmt.Sprintf(`-> FLOCK .* %d `, p.PID())).Match(locks)
		}, testenv.Patience, 5*time.Millisecond)
		time.Sleep(200 * time.Millisecond) // what it is to wait at least
		require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_UN))
		p.Expect("done lock", testenv.Patience)
		out := tr.Stop()
		require.Equal(t, 1, of(tracetest.Table(t, out, "waits"), "critical"), out)
		require.GreaterOrEqual(t, of(tracetest.Table(t, out, "waited"), "critical"), 200_000)
	}, "python", "perl", "ruby", "php")
}

// TestMutex: a thread waits for another, which is a futex.
func TestMutex(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "locks")
		p.does("mutex") // which is held for half a second
		require.GreaterOrEqual(t, of(tracetest.Table(t, tr.Stop(), "waited"), "acquire"), 300_000)
	}, "python", "lua")
}

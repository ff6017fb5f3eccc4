//go:build linux && (amd64 || arm64)

package command_test

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestTrace: trace shows every event with its values, also if the image is in memory. TestSources has one in a file.
func TestTrace(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t, "memfd")
	before := time.Now()
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:*")
	tell(p, "fire 5")
	tell(p, "storm 1 1")
	events := tr.stop()
	require.Len(t, events, 6)
	for i, e := range events[:5] {
		require.Equal(t, []any{"subject", "request__done", p.PID()}, []any{e.Provider, e.Probe, e.PID})
		require.NotEmpty(t, e.Comm)
		require.Equal(t, map[string]any{
			"path": fmt.Sprintf("/item/%d", i), "status": float64(i - 3), "elapsed": float64(i * 1e6), "cached": i%2 == 0,
		}, e.Args)
		require.WithinRange(t, e.Time, before, time.Now())
	}
	require.Equal(t, "tick", events[5].Probe)
	require.False(t, isTraced(p))
}

func TestTraceText(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "trace", "-p", pid(p), "subject:request__done", "-n", "2")
	tell(p, "fire 2")
	require.NoError(t, tr.Wait(testenv.Patience))
	comm := strings.TrimSpace(string(tracetest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID())))(t)))
	header, first, second := tr.Lines()[0], tr.Lines()[1], tr.Lines()[2]
	require.Len(t, tr.Lines(), 3)
	require.Regexp(t, `^TIME +PID COMM +PROBE +ARGUMENTS$`, header)
	require.Regexp(t, fmt.Sprintf(`^\d\d:\d\d:\d\d\.\d{6} +%d %-15s subject:request__done +path="/item/0" status=-3 elapsed=0s cached=true$`, p.PID(), comm), first)
	require.Contains(t, second, ` path="/item/1" status=-2 elapsed=1ms cached=false`)
	require.Equal(t, strings.Index(header, "ARGUMENTS"), strings.Index(first, "path="))
	require.Equal(t, strings.Index(header, "PROBE"), strings.Index(second, "subject:"))
}

// TestTraceC: semaphores, two sites of a name whose operands differ, operands in memory,
// floats, and forked children, by uprobe_multi and by an event for each site. Other processes with the same file are not shown.
func TestTraceC(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--single"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			p, path := startCSubject(t)
			semaphores := func() string {
				p.Say("semaphores")
				defer p.Expect("ok", testenv.Patience)
				return p.Expect("semaphores ", testenv.Patience)
			}
			require.Equal(t, "0 0", semaphores())
			show := []string{"--show", "arg0,str(arg1),arg2,arg3", "--show", "arg4"}
			tr := startTrace(t, p, slices.Concat([]string{"trace", "-o", "json", "-p", pid(p), "csubject:work"}, show, flags)...)
			require.Equal(t, "2 0", semaphores(), "one for each site")
			tell(startProcess(t, exec.Command(path)), "fire 3")
			tell(p, "fire 3")
			p.Say("fork 1")
			child := p.Expect("child ", testenv.Patience)
			p.Expect("ok", testenv.Patience)
			events := tr.stop()
			require.Equal(t, "0 0", semaphores())
			for _, e := range events {
				e.Args["arg3"] = fmt.Sprint(e.Args["arg3"])
			}
			work := func(n int, text string, small int, large string, half float64) map[string]any {
				return map[string]any{"arg0": float64(n), "str(arg1)": text, "arg2": float64(small), "arg3": large, "arg4": half}
			}
			const large = "9.223372036854776e+18"
			var got []map[string]any
			for _, e := range events {
				got = append(got, e.Args)
			}
			require.Equal(t, []map[string]any{
				work(0, "", 0, large, 0), work(1, "a", -1, large, 0.5), work(-1, "a", 7, "1", 0.5), work(2, "text", -2, large, 1),
				work(0, "", 0, large, 1.5),
			}, got)
			require.Equal(t, child, strconv.Itoa(events[4].PID))

			// The same by the file.
			tr = startTrace(t, p, slices.Concat([]string{"trace", "-o", "json", path + ":csubject:work", "-w", `arg0 == 1 && str(arg1) == "a"`}, flags)...)
			tell(p, "fire 3")
			require.Equal(t, []any{1.}, args(tr.stop(), "arg0"))
		})
	}
}

// withTracefs is a script for a mount namespace of its own.
const withTracefs = "test -d /sys/kernel/tracing/events || mount -t tracefs none /sys/kernel/tracing"

// TestTraceMemory: what is paged out is read, and what is not there is not empty.
func TestTraceMemory(t *testing.T) {
	t.Parallel()
	p, _ := startCSubject(t)
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "csubject:text", "--show", "str(arg0)")
	tell(p, "texts")
	require.Equal(t, []any{"ELF\x02\x01\x01", "end", nil, nil}, args(tr.stop(), "str(arg0)"))
	tr = startTrace(t, p, "trace", "-p", pid(p), "csubject:text", "--show", "str(arg0)", "-n", "4", "--strlen", "2")
	tell(p, "texts")
	require.NoError(t, tr.Wait(testenv.Patience))
	text := strings.Join(tr.Lines(), "\n")
	for _, want := range []string{` str(arg0)="EL"…`, ` str(arg0)="en"…`, ` str(arg0)=<null>`, ` str(arg0)=<unreadable 0x10>`} {
		require.Contains(t, text, want)
	}
	// A filter that cannot be evaluated does not match, and says so.
	tr = startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "csubject:text", "-w", `!strings.HasPrefix(str(arg0), "x")`)
	tell(p, "texts")
	require.Len(t, tr.stop(), 2)
	require.Contains(t, tr.Dump(), "2 events are not included")
}

// TestTraceFilter: the kernel evaluates a filter, and an error points at its place. TestExpressionsAgree has the expressions.
func TestTraceFilter(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:request__done",
		"-w", `elapsed >= 8ms && elapsed < 10*time.Millisecond && strings.Contains(path, "tem/9") && !cached && pid == `+pid(p)+` && cpu < 4096 && arg1 == -1`)
	tell(p, "fire 14")
	require.Equal(t, []any{-1.}, args(tr.stop(), "status"))
	r := runCommand(t, "trace", "-p", pid(p), "subject:request__done", "-w", "status >= 500 && pth == \"/\"")
	r.ends(t, 2, "undefined: pth", "\n\tstatus >= 500 && pth == \"/\"\n\t                 ^\n")
	runCommand(t, "trace", "-p", pid(p), "subject:nothing").ends(t, 3, "no file of the process has subject:nothing")
}

// TestTraceAll: processes that start later, and providers that are loaded again.
func TestTraceAll(t *testing.T) {
	p := startGoSubject(t)
	tr := startTrace(t, p, "trace", "-o", "json", "-a", "subject:request__done")
	tell(p, "fire 1")
	tell(p, "unload")
	tell(p, "load")
	require.Eventually(t, func() bool { return isTraced(p) }, testenv.Patience, 5*time.Millisecond)
	tell(p, "fire 1")
	q := startGoSubject(t)
	require.Eventually(t, func() bool { return isTraced(q) }, testenv.Patience, 5*time.Millisecond)
	tell(q, "fire 2")
	events := tr.stop()
	require.Equal(t, []any{"/item/0", "/item/1", "/item/0", "/item/1"}, args(events, "path"))
	require.Equal(t, q.PID(), events[3].PID)
}

// TestTraceEnds: each way to end is a clean one, and leaves nothing attached.
func TestTraceEnds(t *testing.T) {
	t.Parallel()
	p, _ := startCSubject(t)
	detached := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			p.Say("semaphores")
			defer p.Expect("ok", testenv.Patience)
			return p.Expect("semaphores ", testenv.Patience) == "0 0"
		}, testenv.Patience, 10*time.Millisecond)
		require.False(t, isTraced(p))
	}
	options := []string{"trace", "-o", "json", "-p", pid(p), "csubject:other"}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		tr := startTrace(t, p, options...)
		tell(p, "fire 1")
		tr.Signal(signal)
		require.Len(t, tr.waitForEnd(), 1)
		detached()
	}
	tr := startTrace(t, p, options...)
	tr.Signal(os.Kill)
	require.Error(t, tr.Wait(testenv.Patience))
	detached()

	r := runCommand(t, append(options, "-d", "300ms")...)
	require.Zero(t, r.status)
	require.Empty(t, r.stdout)
	detached()

	tr = startTrace(t, p, append(options, "-n", "2")...)
	tell(p, "fire 5")
	require.Len(t, tr.waitForEnd(), 2)
	detached()

	// The reader ends first.
	cmd := exec.Command("bash", "-c", `set -o pipefail; "$@" | head -n 1`, "bash", stapsdt(t))
	cmd.Args = append(cmd.Args, options...)
	head := &tracer{tracetest.Command(t, cmd), t}
	require.Eventually(t, func() bool { return isTraced(p) }, testenv.Patience, 5*time.Millisecond)
	tell(p, "fire 1")
	head.WaitLine("csubject", testenv.Patience)
	require.Eventually(t, func() bool { tell(p, "fire 1"); return !isTraced(p) }, testenv.Patience, 10*time.Millisecond)
	require.Len(t, head.waitForEnd(), 1)
	detached()

	// The process ends.
	q, _ := startCSubject(t)
	tr = startTrace(t, q, "trace", "-o", "json", "-p", pid(q), "csubject:other")
	tell(q, "fire 3")
	q.Hangup()
	require.Len(t, tr.waitForEnd(), 3)
}

// TestTraceLies: notes that are wrong harm neither the program nor the probes whose notes
// are right, and are said to be wrong.
func TestTraceLies(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	_, path := startCSubject(t)
	original := tracetest.Must(os.ReadFile(path))(t)
	probes := tracetest.Must(sdt.ReadFile(path))(t)
	i := slices.IndexFunc(probes, func(p sdt.Site) bool { return p.Name == "other" })
	other := probes[i]
	file := tracetest.Must(elf.Open(path))(t)
	base := file.Section(".stapsdt.base").Addr
	require.NoError(t, file.Close())
	for name, c := range map[string]struct {
		address, semaphore uint64
		warning            string
	}{
		"elsewhere":        {address: 1 << 40, warning: "csubject"},
		"in the data":      {address: other.Semaphore},
		"in the header":    {address: other.Address &^ 0xfff},
		"not a semaphore":  {semaphore: other.Address},
		"semaphore beyond": {semaphore: 1 << 40, warning: "csubject"},
		"odd semaphore":    {semaphore: other.Semaphore + 1},
	} {
		t.Run(name, func(t *testing.T) {
			// The three addresses of the note of other are in this order, nowhere else.
			word := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
			before := slices.Concat(word(other.Address), word(base), word(other.Semaphore))
			require.Equal(t, 1, bytes.Count(original, before))
			after := slices.Concat(word(cmp.Or(c.address, other.Address)), word(base), word(cmp.Or(c.semaphore, other.Semaphore)))
			liar := filepath.Join(t.TempDir(), "csubject")
			writeProgram(t, bytes.Replace(original, before, after, 1), liar)
			p := startProcess(t, exec.Command(liar))
			tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "-p", pid(p), "csubject:*", "--show", "pid")), t}
			require.Eventually(t, func() bool { return areTraced(p, []string{"csubject:work"}) }, testenv.Patience, 5*time.Millisecond)
			tell(p, "fire 1")
			interrupt(t, tr)
			require.Contains(t, strings.Join(tr.Lines(), "\n"), `"probe":"work"`)
			if c.warning != "" {
				require.Contains(t, tr.Dump(), "err| stapsdt: ")
			}
			tell(p, "fire 1") // it lives
		})
	}
}

// TestTraceStruct: -v shows the fields of a struct, and the texts that they refer to.
func TestTraceStruct(t *testing.T) {
	t.Parallel()
	p := startGoSubject(t)
	tr := startTrace(t, p, "trace", "-p", pid(p), "subject:handled", "-v", "-n", "2", "--strlen", "6")
	tell(p, "handle 2")
	require.NoError(t, tr.Wait(testenv.Patience))
	text := regexp.MustCompile(`Large=\[[^]]*\]`).ReplaceAllString(tr.Lines()[2], "Large=[…]")
	require.True(t, strings.HasSuffix(text,
		` req={Path="/item/"… Status=-1 Flags=[1 2 1] Inner={Ratio=0.5 Name=""} Next=0x0 Took=1s At=1970-01-01T00:00:01Z Ok=true Large=[…] Last=…} n=1`), text)

	tr = startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:handled", "-v")
	tell(p, "handle 2")
	events := tr.stop()
	require.Len(t, events, 2)
	req := events[1].Args["req"].(map[string]any)
	delete(req, "Large")
	require.Equal(t, map[string]any{
		"Path": "/item/1", "Status": -1., "Flags": []any{1., 2., 1.}, "Inner": map[string]any{"Ratio": 0.5, "Name": ""}, "Next": "0x0",
		"Took": 1e9, "At": "1970-01-01T00:00:01Z", "Ok": true, "Last": nil, // it comes after what is read of a large struct
	}, req)

	tr = startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "subject:handled", "-w", "n == 1")
	tell(p, "handle 2")
	require.Regexp(t, `^0x[0-9a-f]+$`, tr.stop()[0].Args["req"])
}

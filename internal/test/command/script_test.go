//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// runScript returns the script that the command prints.
func runScript(t *testing.T, args ...string) string {
	t.Helper()
	r := runCommand(t, append([]string{"script"}, args...)...)
	require.Zero(t, r.status)
	return r.stdout
}

// TestScriptBpftraceC: semaphores, and an argument that the file does not call a text. What bpftrace would read wrongly is not in the script.
func TestScriptBpftraceC(t *testing.T) {
	t.Parallel()
	p, path := startCSubject(t)
	r := runCommand(t, "script", path+":csubject:text", "--str", "nothing", "--for", "bpftrace")
	require.Equal(t, 2, r.status)
	require.Equal(t, "stapsdt: --str nothing: no probe has such an argument\n", r.stderr)
	script := runScript(t, path+":csubject:text", path+":csubject:other", "--str", "arg0", "--for", "bpftrace")
	require.Contains(t, script, `printf("%d %s csubject:text arg0=\"%s\"\n", pid, comm, str(arg0));`)
	tr := tracetest.Bpftrace(t, script)
	tell(p, "fire 2")
	for _, line := range tr.WaitLines(2, testenv.Patience) {
		require.Equal(t, pid(p)+" csubject csubject:other", line)
	}
	tr.Stop()

	r = runCommand(t, "script", path+":csubject:*", "--for", "bpftrace")
	require.Zero(t, r.status)
	require.Regexp(t, `^stapsdt: csubject:work in .*: bpftrace does not understand the operand 8@\S*large\S*; --for tracefs does more\n$`, r.stderr)
	require.NotContains(t, r.stdout, "csubject:work")
	require.Contains(t, r.stdout, "usdt:"+path+":csubject:other\n")
}

// tracefsEvents returns the events of the script's output, with their arguments, and without
// what differs from run to run.
func tracefsEvents(lines []string) (events []string) {
	line := regexp.MustCompile(`^ *\S.*-(\d+) +\[\d+\] \S+ +[\d.]+: (\w+: )\(0x[0-9a-f]+\) ?(.*)$`)
	for _, l := range lines {
		if m := line.FindStringSubmatch(l); m != nil {
			events = append(events, m[2]+m[3])
		}
	}
	return events
}

// instance is the buffer of a script.
var instance = regexp.MustCompile(`(?m)^instance=(\w+)$`)

// startInTracefs starts a shell script where tracefs is mounted, and waits until it has enabled the
// last of its events.
func startInTracefs(t *testing.T, script string, events int, args ...string) *tracetest.Process {
	t.Helper()
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "trace.sh")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
	p := tracetest.Command(t, inNamespaces(t, "--mount", withTracefs, exec.Command("sh", append([]string{path}, args...)...)))
	if events > 0 {
		root := fmt.Sprintf("/proc/%d/root/sys/kernel/tracing/instances/%s/events/stapsdt_*subject/*/enable", p.PID(), instance.FindStringSubmatch(script)[1])
		require.Eventually(t, func() bool {
			on := 0
			files, _ := filepath.Glob(root)
			for _, file := range files {
				if text, _ := os.ReadFile(file); strings.HasPrefix(string(text), "1") {
					on++
				}
			}
			return on == events || p.Ended()
		}, testenv.Patience, 10*time.Millisecond, "its events are not enabled")
	}
	return p
}

// listLeftovers returns what is left in tracefs of a script and of the events of a provider.
func listLeftovers(t *testing.T, script, provider string) string {
	t.Helper()
	list := fmt.Sprintf(`cd /sys/kernel/tracing; grep -h " stapsdt_%s/" uprobe_events || :; ls -d instances/%s 2>/dev/null || :`, provider, instance.FindStringSubmatch(script)[1])
	out := tracetest.Must(inNamespaces(t, "--mount", withTracefs+"\n"+list, exec.Command("true")).Output())(t)
	return string(out)
}

// TestScript: the names, the types and the values of a program in Go, whose image is in a file or in memory, in bpftrace and in tracefs,
// where nothing is left. Other processes are not shown.
func TestScript(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"file", "memfd"} {
		p, other := startGoSubject(t, where), startGoSubject(t, where)
		tr := tracetest.Bpftrace(t, runScript(t, "-p", pid(p), "subject:[rt]*", "--for", "bpftrace"))
		script := runScript(t, "-p", pid(p), "subject:[rt]*", "--for", "tracefs")
		sh := startInTracefs(t, script, 2)
		tell(other, "fire 1")
		tell(p, "fire 2")
		tell(p, "storm 1 1")
		var got []string
		for _, line := range tr.WaitLines(3, testenv.Patience) {
			number, rest, _ := strings.Cut(line, " ")
			require.Equal(t, pid(p), number, line)
			_, event, _ := strings.Cut(rest, " ")
			got = append(got, event)
		}
		slices.Sort(got) // lines of different processors come in no certain order
		require.Equal(t, []string{
			`subject:request__done path="/item/0" status=-3 elapsed=0ns cached=true`,
			`subject:request__done path="/item/1" status=-2 elapsed=1000000ns cached=false`,
			`subject:tick arg0=0 arg1=0`,
		}, got)
		tr.Stop()
		sh.WaitMatch(regexp.MustCompile(" tick: "), testenv.Patience)
		sh.Signal(os.Interrupt)
		_ = sh.Wait(testenv.Patience)
		require.Equal(t, []string{
			`request__done: path="/item/0" status=-3 elapsed=0 cached=1`,
			`request__done: path="/item/1" status=-2 elapsed=1000000 cached=0`,
			`tick: arg0=0 arg1=0`,
		}, tracefsEvents(sh.Lines()))
		require.Empty(t, listLeftovers(t, script, "subject"))
	}
}

// TestScriptTracefsC: semaphores, operands in memory, constants and symbols, and children.
func TestScriptTracefsC(t *testing.T) {
	t.Parallel()
	p, original := startCSubject(t)
	// A path that the kernel does not read.
	path := filepath.Join(filepath.Dir(original), "a #subject's")
	require.NoError(t, os.Link(original, path))
	script := runScript(t, "-p", pid(p), path+":csubject:work", "--str", "arg1", "--for", "tracefs")
	sh := startInTracefs(t, script, 2)
	p.Say("semaphores")
	require.Equal(t, "2 0", p.Expect("semaphores ", testenv.Patience))
	p.Expect("ok", testenv.Patience)
	tell(p, "fire 2")
	p.Say("fork 1")
	p.Expect("ok", testenv.Patience)
	require.Eventually(t, func() bool { return len(tracefsEvents(sh.Lines())) == 4 }, testenv.Patience, 10*time.Millisecond)
	// A second one is refused, and does no harm.
	again := startInTracefs(t, script, 0)
	require.Error(t, again.Wait(testenv.Patience))
	require.Contains(t, again.Dump(), "this script runs already")
	sh.Signal(os.Interrupt)
	_ = sh.Wait(testenv.Patience)
	require.Equal(t, []string{
		`work: arg0=0 arg1="" arg2=0 arg3=9223372036854775808 arg4=0x0`,
		`work: arg0=1 arg1="a" arg2=-1 arg3=9223372036854775808 arg4=0x3fe0000000000000`,
		`work_2: arg0=-1 arg1="a" arg2=7 arg3=1 arg4=0x3fe0000000000000`,
		`work: arg0=0 arg1="" arg2=0 arg3=9223372036854775808 arg4=0x3ff0000000000000`,
	}, tracefsEvents(sh.Lines()))
	require.Empty(t, listLeftovers(t, script, "csubject"))

	// Each step on its own.
	require.NoError(t, startInTracefs(t, script, 0, "add").Wait(testenv.Patience))
	tell(p, "fire 1")
	printing := startInTracefs(t, script, 2, "print")
	printing.WaitMatch(regexp.MustCompile(`work: .* arg1=""`), testenv.Patience)
	printing.Signal(os.Interrupt)
	_ = printing.Wait(testenv.Patience)
	require.NoError(t, startInTracefs(t, script, 0, "remove").Wait(testenv.Patience))
	require.Empty(t, listLeftovers(t, script, "csubject"))

	// Another file at the path: an offset could be in the middle of an instruction.
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("another"), 0o600))
	changed := startInTracefs(t, script, 0)
	require.Error(t, changed.Wait(testenv.Patience))
	require.Contains(t, changed.Dump(), "has changed: make this script again")
	require.Empty(t, listLeftovers(t, script, "csubject"))
}

//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// startGroup starts a command in a process group of its own, which is killed when the test
// ends: go run and pipes have several processes.
func startGroup(t *testing.T, dir, command string) *tracetest.Process {
	t.Helper()
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	p := tracetest.Command(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-p.PID(), syscall.SIGKILL) })
	return p
}

// attached is what bpftrace prints when it has attached every probe.
const attached = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

// tracer is a command of a document that runs bpftrace, as in one more terminal.
type tracer struct {
	*tracetest.Process
	t *testing.T
}

// trace starts a tracer and waits until it has attached its probes.
func (d *document) trace(t *testing.T, command string) *tracer {
	t.Helper()
	// Output that goes to a file or to a pipe still tells here that the probes are attached.
	// SIGINT is for bpftrace alone, which handles it: what it prints after that is wanted.
	// The command may be a script that runs bpftrace.
	directory := t.TempDir()
	wrapper := `#!/bin/bash
		PATH='` + os.Getenv("PATH") + `' ` + attached + `=1 ` + strings.Join(tracetest.BpftraceCommand(t), " ") + ` -B line "$@" 2>&1 |
			tee >(grep --line-buffered -x ` + attached + ` >&3)
		`
	require.NoError(t, os.WriteFile(directory+"/bpftrace", []byte(wrapper), 0o755))
	p := startGroup(t, d.dir, `exec 3>&1 2>&1; trap '' INT; unset BPFTRACE; PATH='`+directory+`':"$PATH"
		`+command)
	p.WaitLine(attached, testenv.Patience)
	return &tracer{p, t}
}

// interrupt sends SIGINT, as Ctrl-C does.
func (tr *tracer) interrupt() { _ = syscall.Kill(-tr.PID(), syscall.SIGINT) }

// bpftraces returns the PIDs of those in the tracer's group.
func (tr *tracer) bpftraces() (pids []int) {
	out, _ := exec.Command("pgrep", "-x", "-g", strconv.Itoa(tr.PID()), "bpftrace").Output() // none is no error
	for word := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// finish waits for the end of a tracer that was interrupted, and returns what it printed.
func (tr *tracer) finish() []string {
	tr.t.Helper()
	tr.InterruptAgain(tr.bpftraces)
	_ = tr.Wait(testenv.Patience) // the status is that of tee
	return slices.DeleteFunc(tr.Lines(), func(line string) bool { return line == attached })
}

// matching returns the lines that match a pattern, of which there must be one.
func matching(t *testing.T, pattern string, lines []string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	found := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !re.MatchString(line) })
	require.NotEmpty(t, found, "no line matches %s:\n%s", pattern, strings.Join(lines, "\n"))
	return found
}

// sees runs a tracer until it prints a line that matches, and returns all such lines.
func (d *document) sees(t *testing.T, pattern, command string) []string {
	t.Helper()
	tr := d.trace(t, command)
	tr.WaitMatch(regexp.MustCompile(pattern), testenv.Patience)
	tr.interrupt()
	return matching(t, pattern, tr.finish())
}

// follower is a tracer that must have printed a line that matches when it has ended.
type follower struct {
	*tracer
	command, pattern string
}

// followers are several tracers at a time, as in as many terminals.
type followers []follower

// follow starts one more tracer.
func (f *followers) follow(t *testing.T, d *document, pattern, command string) {
	t.Helper()
	*f = append(*f, follower{d.trace(t, command), command, pattern})
}

// watch starts one more, which is a command of stapsdt. It is the first tracer of a probe, which shows when it is attached.
func (f *followers) watch(t *testing.T, d *document, pid, probe, pattern, command string) {
	t.Helper()
	p := startGroup(t, d.dir, "exec 2>&1; exec "+command)
	attached := regexp.MustCompile(`"probe":"` + probe + `".*"traced":true`)
	require.Eventually(t, func() bool { return attached.MatchString(d.run(t, "stapsdt list -o json -p "+pid)) || p.Ended() },
		testenv.Patience, 100*time.Millisecond)
	*f = append(*f, follower{&tracer{p, t}, command, pattern})
}

// scriptOf finds what names a tracer: the same in each run, so without the process.
var scriptOf = regexp.MustCompile(`bpftrace -[ep]|stapsdt \w+|\w+\.bt|trace\.sh \w+ \w+`)

// leave interrupts all tracers, and compares what each printed.
func (f followers) leave(t *testing.T) (first []string) {
	for _, each := range f {
		each.interrupt()
	}
	for i, each := range f {
		lines := each.finish()
		if i == 0 {
			first = lines
		}
		t.Run(strings.Join(scriptOf.FindAllString(each.command, -1), " "), func(t *testing.T) { matching(t, each.pattern, lines) })
	}
	return first
}

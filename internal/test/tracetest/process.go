//go:build linux

package tracetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// Process is a running program that a test talks with, line by line. It is killed when the test is over, and everything
// it printed is in the log of a test that failed. Its methods are for the test's own goroutine, as they end the test.
type Process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	dumped bool // what it printed is in the test's log

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when a line arrives and when the process ends
	lines   []line
	unread  int // index of the first line that Expect has not passed
	exited  bool
	err     error // of cmd.Wait
}

// quitPatience is how long a program may take to print what its goroutines do.
const quitPatience = 5 * time.Second

type line struct {
	stderr bool
	text   string
}

// Command starts cmd, of which Stdin, Stdout and Stderr must not be set, and fails the test when it cannot. The process does not outlive the test binary, whatever ends that.
func Command(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, name: strings.Join(cmd.Args, " "), cmd: cmd, changed: make(chan struct{})}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	stdout, stderr := &lineWriter{to: p}, &lineWriter{to: p, stderr: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// What the process left behind may hold its pipes open: do not wait for that.
	cmd.WaitDelay = 2 * time.Second
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL

	started := make(chan error)
	go func() {
		// The death signal is sent when the thread that forked ends, not the process: keep that thread until the
		// process is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		stdout.flush()
		stderr.flush()
		p.update(func() { p.exited, p.err = true, err })
	}()
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	t.Cleanup(p.cleanup)
	return p
}

// cleanup runs when the test is over: the test has what it wanted, so how the process ends does not matter any more.
// If the test has failed, what it has printed is reported. A Go program that still runs says what its goroutines do: on
// SIGQUIT the runtime prints that.
func (p *Process) cleanup() {
	if p.t.Failed() {
		if !p.wait(0, p.gone) {
			_ = p.cmd.Process.Signal(syscall.SIGQUIT)
			p.wait(quitPatience, p.gone)
			p.dumped = false
		}
		if !p.dumped {
			p.t.Log(p.Dump())
		}
	}
	if !p.wait(0, p.gone) {
		_ = p.cmd.Process.Kill()
		p.wait(testenv.Patience, p.gone)
	}
}

// PID is the process's number, also after it ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Say writes a line to the process's standard input.
func (p *Process) Say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.fatalf("say %q: %v", line, err)
	}
}

// Expect waits for a line of standard output that begins with prefix, and returns what follows the prefix, without
// spaces around it. Lines before it are passed over: the next Expect looks only at those after it.
func (p *Process) Expect(prefix string, timeout time.Duration) string {
	p.t.Helper()
	var found string
	ok := p.wait(timeout, func() bool {
		for p.unread < len(p.lines) {
			l := p.lines[p.unread]
			p.unread++
			if rest, ok := strings.CutPrefix(l.text, prefix); ok && !l.stderr {
				found = strings.TrimSpace(rest)
				return true
			}
		}
		return false
	})
	if !ok {
		p.fatalf("expected a line %q… for %v", prefix, timeout)
	}
	return found
}

// WaitLine waits until some line of standard output, old or new, contains text, and returns the first that does.
func (p *Process) WaitLine(text string, timeout time.Duration) string {
	p.t.Helper()
	found, ok := p.find(timeout, func(l line) bool { return !l.stderr && strings.Contains(l.text, text) })
	if !ok {
		p.fatalf("waited for a line with %q for %v", text, timeout)
	}
	return found.text
}

// WaitMatch waits until some line of standard output, old or new, matches, and returns the first that does and its
// groups, as FindStringSubmatch does.
func (p *Process) WaitMatch(re *regexp.Regexp, timeout time.Duration) []string {
	p.t.Helper()
	return p.waitMatch(re, timeout, func(l line) bool { return !l.stderr })
}

// WaitSaid is WaitMatch for lines of standard error too, where a program speaks to people.
func (p *Process) WaitSaid(re *regexp.Regexp, timeout time.Duration) []string {
	p.t.Helper()
	return p.waitMatch(re, timeout, func(line) bool { return true })
}

// waitMatch waits for a line that is meant and matches.
func (p *Process) waitMatch(re *regexp.Regexp, timeout time.Duration, meant func(line) bool) []string {
	p.t.Helper()
	found, ok := p.find(timeout, func(l line) bool { return meant(l) && re.MatchString(l.text) })
	if !ok {
		p.fatalf("waited for a line that matches %v for %v", re, timeout)
	}
	return re.FindStringSubmatch(found.text)
}

// Lines is what the process printed on standard output until now.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdoutLines()
}

func (p *Process) stdoutLines() []string {
	var lines []string
	for _, l := range p.lines {
		if !l.stderr {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// Hangup closes the process's standard input, which is how a conversation ends.
func (p *Process) Hangup() { _ = p.stdin.Close() }

// Signal sends a signal. It is no error that the process has ended.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.fatalf("signal %v: %v", s, err)
	}
}

// Wait waits for the process to end and returns what exec.Cmd's Wait did: nil for a status of 0. It fails the test
// when the process does not end in time.
func (p *Process) Wait(timeout time.Duration) error {
	p.t.Helper()
	if !p.wait(timeout, p.gone) {
		p.fatalf("still runs after %v", timeout)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Ended reports whether the process has ended, and all that it printed has been read.
func (p *Process) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Dump is everything the process printed, and how it ended, for a person to read.
func (p *Process) Dump() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	state := "running"
	if p.exited {
		state = p.cmd.ProcessState.String()
	}
	fmt.Fprintf(&b, "%s: process %d, %s", p.name, p.cmd.Process.Pid, state)
	for _, l := range p.lines {
		stream := "out"
		if l.stderr {
			stream = "err"
		}
		fmt.Fprintf(&b, "\n  %s| %s", stream, l.text)
	}
	return b.String()
}

// fatalf ends the test and tells all that the process printed.
func (p *Process) fatalf(format string, args ...any) {
	p.t.Helper()
	testenv.NeedsBTFIf(p.t, p.Dump())
	p.dumped = true
	p.t.Fatalf("%s: %s\n%s", p.name, fmt.Sprintf(format, args...), p.Dump())
}

// gone is a condition for wait.
func (p *Process) gone() bool { return p.exited }

// find waits for a line, of either stream.
func (p *Process) find(timeout time.Duration, match func(line) bool) (found line, ok bool) {
	at := 0
	ok = p.wait(timeout, func() bool {
		for ; at < len(p.lines); at++ {
			if match(p.lines[at]) {
				found = p.lines[at]
				return true
			}
		}
		return false
	})
	return found, ok
}

// wait calls condition, under the lock, at once and after each change until it holds, and reports whether it did. It
// gives up early when the process has ended, as nothing will change after that.
func (p *Process) wait(timeout time.Duration, condition func() bool) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		p.mu.Lock()
		ok, over, changed := condition(), p.exited, p.changed
		p.mu.Unlock()
		if ok || over {
			return ok
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

func (p *Process) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// lineWriter is a stream of a process, cut into lines.
type lineWriter struct {
	to     *Process
	stderr bool
	rest   []byte // of a line that is not complete
}

func (w *lineWriter) Write(data []byte) (int, error) {
	w.rest = append(w.rest, data...)
	for {
		text, rest, ok := bytes.Cut(w.rest, []byte{'\n'})
		if !ok {
			return len(data), nil
		}
		w.add(string(text))
		w.rest = rest
	}
}

func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.add(string(w.rest))
		w.rest = nil
	}
}

func (w *lineWriter) add(text string) {
	w.to.update(func() { w.to.lines = append(w.to.lines, line{w.stderr, text}) })
}

//go:build linux && (amd64 || arm64)

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// runtimeCalls are those of Go's runtime, which come when they like.
var runtimeCalls = regexp.MustCompile(`^(futex|madvise|nanosleep|sched_\w+|rt_\w+|getpid|gettid|tgkill|sigaltstack|epoll_\w+|eventfd2|brk|clone3?|timer_\w+|setitimer)$`)

// systemCall is a call that a child made between its marks.
type systemCall struct {
	name, args string
	nth        int // of the calls of that name that its thread has made
	// pair is which pair of marks it stands between, and turn which of the calls
	// of that name there, the runtime's left out.
	pair, turn int
	injected   bool
	// spoiled is how many calls of that name had been interfered with before.
	spoiled int
}

// ours reports whether a call is not the runtime's. Its mmaps, and those of C's
// malloc, are larger than ours.
func (c systemCall) ours() bool {
	if c.name == "mmap" && strings.Contains(c.args, "MAP_ANONYMOUS") {
		return strings.HasPrefix(c.args, fmt.Sprintf("NULL, %d, ", os.Getpagesize()))
	}
	if c.name == "read" && strings.HasSuffix(c.args, ", 8") { // of the eventfd that wakes the runtime's poller, in any thread
		return false
	}
	return !runtimeCalls.MatchString(c.name)
}

// same reports whether both are the same call, in two runs.
func (c systemCall) same(as systemCall) bool {
	return c.ours() && c.name == as.name && c.pair == as.pair && c.turn == as.turn
}

var insignificant = regexp.MustCompile(`"[^"]*"|\d`)

// kind returns what calls that differ in names and numbers only have in common.
func (c systemCall) kind() string { return c.name + insignificant.ReplaceAllString(c.args, "") }

// strace is one run of the fault child under the tracer of system calls.
type strace struct {
	calls []systemCall // between the marks
	dir   string       // the directory of the child's images
	out   string       // what the child printed
	err   error
}

var straceLine = regexp.MustCompile(`^(\w+)\((.*)\) += (.*)$`)

// faultEnv is a fault child's environment, where the directory, which is called stapsdt, is
// the only one.
func faultEnv(child, directory string) []string {
	return append(os.Environ(), "STAPSDT_TEST_CHILD="+child, "STAPSDT_DIR=", "XDG_RUNTIME_DIR="+filepath.Dir(directory), "TMPDIR=/nonexistent", "GOMAXPROCS=1",
		"GORACE=atexit_sleep_ms=0") // or each takes a second to end
}

// runStrace runs the fault child with calls made to fail, from when it is ready.
func runStrace(injections []string, child ...string) (s strace) {
	fail := func(err error) bool {
		s.err = errors.Join(s.err, err)
		return s.err != nil
	}
	self, err := os.Executable()
	cmd := exec.Command(self, child...)
	cmd.Env = faultEnv("fault", child[1])
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if fail(errors.Join(err, inErr, outErr, cmd.Start())) {
		return s
	}
	defer cmd.Process.Kill()
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); fail(err) {
		return s
	}
	stop, log := attachStrace(injections, cmd.Process.Pid, fail)
	in.Close()
	rest, err := io.ReadAll(lines)
	s.out = string(rest)
	fail(err)
	fail(cmd.Wait())
	stop()
	text, err := os.ReadFile(log)
	fail(errors.Join(err, os.Remove(log)))
	s.parse(string(text))
	return s
}

// attachStrace attaches to one thread, and returns where it writes to, and what
// waits until it has written all.
func attachStrace(injections []string, thread int, fail func(error) bool) (stop func(), log string) {
	file, err := os.CreateTemp("", "strace")
	if fail(err) {
		return func() {}, ""
	}
	file.Close()
	args := []string{"-o", file.Name(), "-p", strconv.Itoa(thread)}
	for _, injection := range injections {
		args = append(args, "-e", "inject="+injection)
	}
	cmd := exec.Command("strace", args...)
	out, err := cmd.StderrPipe()
	if fail(errors.Join(err, cmd.Start())) {
		return func() {}, file.Name()
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err == nil && !strings.Contains(line, "attached") {
		err = errors.New(line)
	}
	fail(err)
	return func() {
		io.Copy(io.Discard, lines)
		cmd.Wait()
	}, file.Name()
}

// parse reads the log.
func (s *strace) parse(log string) {
	type place struct {
		name string
		pair int
	}
	marks, counts, turns, spoiled := 0, map[string]int{}, map[place]int{}, map[string]int{}
	for _, line := range strings.Split(log, "\n") {
		m := straceLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, args := m[1], m[2]
		counts[name]++
		switch {
		case name == "getppid":
			marks++
		case marks%2 == 1:
			c := systemCall{name: name, args: args, nth: counts[name], pair: marks / 2, injected: strings.HasSuffix(line, "(INJECTED)"), spoiled: spoiled[name]}
			at := place{name, c.pair}
			c.turn = turns[at] + 1
			if c.ours() && !(c.injected && strings.Contains(line, "EINTR")) { // which is made again
				turns[at]++
			}
			s.calls = append(s.calls, c)
		}
		if strings.HasSuffix(line, "(INJECTED)") {
			spoiled[name]++
		}
	}
}

//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// attachedMarker is printed by bpftrace, on a line of its own, once every probe is attached, if the environment has a
// variable of that name. It is what bpftrace's own tests wait for: on standard error in 0.17, on standard output later.
//
// Nothing that a program prints can take its place. "Attaching N probes..." comes before any is attached ("Attached N
// probes", of later versions, after). BEGIN runs before the others are attached too, and it even keeps bpftrace
// running, content, when the pattern of the others matched nothing: without it bpftrace then says "No probes to
// attach" and ends, which is what a test wants.
const attachedMarker = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

var attachNotice = regexp.MustCompile(`^Attach(ing|ed) \d+ probes?(\.\.\.)?$`)

// Tracer is a bpftrace that has attached its probes.
type Tracer struct {
	*Process
	stopped bool
}

// BpftraceCommand returns the words of the command in $BPFTRACE ("chroot /srv/sid bpftrace"), or else bpftrace. It is
// [testenv.NeedsTool] for the first of them.
func BpftraceCommand(t testing.TB) []string {
	t.Helper()
	words := strings.Fields(os.Getenv("BPFTRACE"))
	if len(words) == 0 {
		words = []string{"bpftrace"}
	}
	testenv.NeedsTool(t, words[0], "bpftrace")
	return words
}

// BpftraceVersion is the version of the bpftrace that [Bpftrace] runs: 0, 17 for "bpftrace v0.17.0".
func BpftraceVersion(t testing.TB) (major, minor int) {
	t.Helper()
	words := append(BpftraceCommand(t), "--version")
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	if _, err := fmt.Sscanf(string(out), "bpftrace v%d.%d", &major, &minor); err != nil {
		t.Fatalf("%s: %q: %v", strings.Join(words, " "), out, err)
	}
	return major, minor
}

// Bpftrace runs a bpftrace program and returns when all its probes are attached. The arguments come before the program:
// "-p", "1234". It fails the test when bpftrace ends, or is not attached in two minutes; a pattern that matches no
// probe is among the reasons. The program prints a line at a time, with a \n at the end of each, and says nothing of
// its readiness: that is seen to. $BPFTRACE names another bpftrace, and other variables reach it as they are
// (t.Setenv("BPFTRACE_STRLEN", "200")).
func Bpftrace(t testing.TB, program string, args ...string) *Tracer {
	t.Helper()
	testenv.NeedsRoot(t)
	// 0.17 buffers whole blocks when it writes to a pipe, unless told otherwise. Its help does not list "line", but it
	// takes it.
	words := slices.Concat(BpftraceCommand(t), []string{"-B", "line"}, args, []string{"-e", program})
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), attachedMarker+"=1")
	tr := &Tracer{Process: Command(t, cmd)}
	tr.name = "bpftrace"
	if _, ok := tr.find(testenv.Patience, func(l line) bool { return l.text == attachedMarker }); !ok {
		tr.fatalf("probes were not attached: %s", program)
	}
	return tr
}

// BpftraceScript runs a command that becomes bpftrace, as a script does that ends with exec. It does not wait for its probes.
func BpftraceScript(t testing.TB, cmd *exec.Cmd) *Tracer {
	t.Helper()
	testenv.NeedsRoot(t)
	return &Tracer{Process: Command(t, cmd)}
}

// Lines is what the program printed until now, without blank lines and without what bpftrace says of itself. (What it
// says on standard error, such as that it could not set RLIMIT_MEMLOCK or, at its end, failed to detach, does no harm:
// the kernel detaches when its descriptors are closed.)
func (tr *Tracer) Lines() []string {
	return slices.DeleteFunc(tr.Process.Lines(), notPrinted)
}

func notPrinted(text string) bool {
	return strings.TrimSpace(text) == "" || text == attachedMarker || attachNotice.MatchString(text)
}

// WaitLines waits until the program printed n lines, and returns all that it printed. Lines printed by different
// processors come in no certain order.
func (tr *Tracer) WaitLines(n int, timeout time.Duration) []string {
	tr.t.Helper()
	var lines []string
	ok := tr.wait(timeout, func() bool {
		lines = slices.DeleteFunc(tr.stdoutLines(), notPrinted)
		return len(lines) >= n
	})
	if !ok {
		tr.fatalf("waited for %d lines for %v, got %d", n, timeout, len(lines))
	}
	return lines
}

// Stop interrupts bpftrace, which then prints its maps, waits for its end, and returns the lines of [Tracer.Lines]. It
// fails the test when bpftrace does not end well. Maps are complete; a line that was not printed yet may be dropped by
// bpftrace, so wait for the last one before. A program that calls exit() is to be waited for, with Wait, before it is
// stopped. The sites are nops again when Stop returns, unless something else traces them.
func (tr *Tracer) Stop() (output string) {
	tr.t.Helper()
	if !tr.stopped {
		tr.stopped = true
		tr.interrupt()
		if err := tr.Wait(testenv.Patience); err != nil {
			tr.fatalf("ended with %v", err)
		}
	}
	return strings.Join(tr.Lines(), "\n")
}

// interrupt sends SIGINT until bpftrace acts on it.
func (tr *Tracer) interrupt() {
	tr.t.Helper()
	tr.Signal(syscall.SIGINT)
	tr.InterruptAgain(func() []int { return []int{tr.PID()} })
}

// InterruptAgain waits for the end of a process that was interrupted, which is a bpftrace or has started some, whose PIDs
// bpftraces returns. 0.17 notes a SIGINT that comes while it prints, but then looks at the note only when another event
// comes, or when a signal interrupts its wait for one: if nothing fires any more it runs forever. So SIGINT is sent again,
// unless bpftrace has begun to print its maps: before that it gives up its handler, and SIGINT would kill it.
func (p *Process) InterruptAgain(bpftraces func() []int) {
	for again := 2 * time.Second; again < testenv.Patience && !p.wait(again, p.gone); again *= 2 {
		for _, pid := range bpftraces() {
			if catches(pid, syscall.SIGINT) {
				_ = syscall.Kill(pid, syscall.SIGINT)
			}
		}
	}
}

// catches reports whether a process has a handler for a signal, which then does not kill it.
func catches(pid int, s syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false // it has ended
	}
	_, rest, _ := strings.Cut(string(status), "\nSigCgt:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && mask&(1<<(s-1)) != 0
}

// Table returns the integers of a map that bpftrace printed, by their keys as it wrote them: "fib, 1": 13 of a map
// named calls, for the line "@calls[fib, 1]: 13". The map of another name is not among them, nor is a key of several
// lines, such as a stack, or a value that is no integer, such as a histogram. A map that was not printed is empty.
func Table(t testing.TB, output, name string) map[string]int {
	t.Helper()
	entries := map[string]int{}
	line := regexp.MustCompile(`(?m)^@` + regexp.QuoteMeta(name) + `\[(.*)\]: (-?\d+)$`)
	for _, m := range line.FindAllStringSubmatch(output, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatalf("@%s[%s]: %v", name, m[1], err)
		}
		entries[m[1]] = n
	}
	return entries
}

// Script runs a file with a bpftrace program on a process, as "bpftrace -p PID FILE ARGS" does, and returns when its
// probes are attached. See [Bpftrace].
func Script(t testing.TB, p *Process, file string, args ...string) *Tracer {
	t.Helper()
	return Bpftrace(t, read(t, file), append([]string{"-p", strconv.Itoa(p.PID())}, args...)...)
}

// FunctionScript returns the bpftrace program that examples/scripts/trace.sh, whose path is trace, runs for the
// functions of a process, and its options.
func FunctionScript(t testing.TB, p *Process, trace, language, name string) (program string, options []string) {
	t.Helper()
	pid := strconv.Itoa(p.PID())
	out, err := exec.Command("sh", trace, language, name, pid, "-").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", trace, err, out)
	}
	if program = string(out); strings.Contains(program, "usdt:*:") {
		options = []string{"-p", pid}
	}
	return program, options
}

// ProbesFile is the file of a provider's probes that a process has mapped, by way of /proc/PID/root: a path that holds
// in a chroot and from other containers too, while the process lives.
func ProbesFile(t testing.TB, pid int, provider string) string {
	t.Helper()
	maps := read(t, fmt.Sprintf("/proc/%d/maps", pid))
	m := regexp.MustCompile(` (/\S+/` + regexp.QuoteMeta(provider) + `-[0-9a-f]+\.so)\n`).FindStringSubmatch(maps)
	if m == nil {
		t.Fatalf("process %d has no file of %s:\n%s", pid, provider, maps)
	}
	return fmt.Sprintf("/proc/%d/root%s", pid, m[1])
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

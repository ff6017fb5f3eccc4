//go:build linux && (amd64 || arm64)

package command_test

import (
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

	"github.com/stretchr/testify/require"
)

// wrapped is an operator below another process, which has forked it before anything looks at it, and has no
// probes itself.
type wrapped struct {
	*tracetest.Process
	// in are words that run a command where the PIDs are looked at.
	in []string
	// wrapper and operator are PIDs there, and outside is that of the operator here.
	wrapper, operator, outside string
}

// numbers returns the PIDs of a process, from that of the namespace of /proc to that of its own.
func numbers(t *testing.T, pid string) []string {
	t.Helper()
	status := tracetest.Must(os.ReadFile("/proc/" + pid + "/status"))(t)
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}

// startWrapped starts an operator that listens, below a shell, or with nested below one in a PID namespace of its
// own, which is below another one in which the commands run.
func startWrapped(t *testing.T, nested bool) *wrapped {
	t.Helper()
	testenv.NeedsRoot(t)
	w := &wrapped{in: []string{"env"}}
	words := []string{"sh", "-c", `"$0" operator; :`, tracetest.Build(t, "subject")}
	if nested {
		outer := startProcess(t, inNamespaces(t, "--pid --fork --mount-proc --kill-child", "", exec.Command("sh", "-c", "echo ready; cat")))
		w.in = []string{testenv.NeedsTool(t, "nsenter", "util-linux"), "--target", childOf(t, outer), "--pid", "--mount"}
		words = slices.Concat(w.in, []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}, words)
	}
	w.Process = startIn(t, t.TempDir(), exec.Command(words[0], words[1:]...))
	tell(w.Process, "listen")
	above := pid(w.Process)
	for w.outside = above; ; {
		children := childrenOf(t, w.outside)
		if len(children) == 0 {
			break
		}
		above, w.outside = w.outside, children[0]
	}
	at := 0
	if nested {
		at = 1
		require.Len(t, numbers(t, w.outside), 3)
	}
	w.wrapper, w.operator = numbers(t, above)[at], numbers(t, w.outside)[at]
	return w
}

// command returns a command of stapsdt for the wrapper.
func (w *wrapped) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	words := slices.Concat(w.in, []string{stapsdt(t)}, args, []string{"-p", w.wrapper})
	return exec.Command(words[0], words[1:]...)
}

// row is what the lines of JSON of these verbs have in common.
type row struct {
	PID        int
	By         map[string]any
	Count      int
	Operation  string
	Operations []row
}

// TestFamily: -p stands for a process and what it has forked before, for each verb, by the kernel and by the
// socket, and also if the PID namespace of the program is below that of the command, and this below the machine's.
func TestFamily(t *testing.T) {
	for _, nested := range []bool{false, true} {
		w := startWrapped(t, nested)
		name := "nested=" + strconv.FormatBool(nested)
		for _, args := range [][]string{
			{"trace", "operator:request__end"},
			{"count", "--by", "pid", "operator:request__end"},
			{"hist", "--by", "pid", "operator:request__end", "nanoseconds"},
			{"latency", "--by", "pid", "operator:request"},
			{"tree", "operator:request", "operator:query"},
			{"top", "-i", "100ms", "--by", "pid", "operator:request"},
			{"stack", "--by", "pid", "operator:request__end"},
			{"count", "--by", "pid", "go:time.Sleep"},
		} {
			onlyKernel := args[0] == "stack" || strings.HasPrefix(args[len(args)-1], "go:")
			for _, via := range []string{"kernel", "socket"} {
				if onlyKernel && via == "socket" {
					continue
				}
				t.Run(strings.Join([]string{name, args[0], args[len(args)-1], via}, " "), func(t *testing.T) {
					full := slices.Concat(args, []string{"-o", "json", "-v"})
					if !onlyKernel {
						full = append(full, "--via", via)
					}
					w.sees(t, via, full)
				})
			}
		}
		t.Run(name+" list", func(t *testing.T) {
			r := runToEnd(t, w.command(t, "list"))
			require.Contains(t, r.stdout, " (process "+w.operator+")\n")
			require.Contains(t, r.stdout, "can be watched without root: process "+w.operator+"\n")
		})
		for _, via := range []string{"kernel", "socket"} {
			t.Run(name+" record "+via, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "operator.rec")
				tr := tracetest.Command(t, w.command(t, "record", "-v", "--via", via, "-O", file, "operator:request__end"))
				w.watched(t, "record", via, tr)
				tell(w.Process, "requests 5")
				w.interrupt(t, tr)
				require.Contains(t, runCommand(t, "count", "--from", file, "operator:*").stdout, "  5  operator:request__end\n")
			})
		}
	}
}

// watched waits until a command watches the operator.
func (w *wrapped) watched(t *testing.T, verb, via string, tr *tracetest.Process) {
	t.Helper()
	if via == "socket" {
		tr.WaitSaid(regexp.MustCompile("^stapsdt: process "+w.operator+" is watched by its socket$"), testenv.Patience)
		return
	}
	if verb == "stack" { // which announces nothing
		(&tracer{tr, t}).until(func() bool { return isPIDTraced(w.outside) })
		return
	}
	tr.WaitSaid(regexp.MustCompile(`stapsdt: \d+ probes? of \d process`), testenv.Patience)
}

// interrupt interrupts a command, which nsenter has forked, and waits for its end.
func (w *wrapped) interrupt(t *testing.T, tr *tracetest.Process) {
	t.Helper()
	to := tr.PID()
	if w.in[0] != "env" {
		to = tracetest.Must(strconv.Atoi(childOf(t, tr)))(t)
	}
	require.NoError(t, syscall.Kill(to, syscall.SIGINT))
	require.NoError(t, tr.Wait(testenv.Patience))
}

// sees requires that a command sees the five requests that the operator begins when it is watched, under its PID.
func (w *wrapped) sees(t *testing.T, via string, args []string) {
	t.Helper()
	tr := &tracer{tracetest.Command(t, w.command(t, args...)), t}
	w.watched(t, args[0], via, tr.Process)
	tell(w.Process, "requests 5")
	count := func() (total int) {
		for _, line := range tr.Lines() {
			n := 0
			if !strings.HasPrefix(line, "{") {
				continue
			}
			r := lines[row](t, line)[0]
			all := []row{r}
			if args[0] == "top" {
				all = r.Operations
			}
			for _, one := range all {
				switch pid, isCounted := one.By["pid"]; {
				case isCounted:
					require.Equal(t, w.operator, fmt.Sprint(pid))
					n += one.Count
				case one.PID != 0:
					require.Equal(t, w.operator, strconv.Itoa(one.PID))
					n++
				}
			}
			if args[0] == "top" { // the intervals overlap
				total = max(total, n)
			} else {
				total += n
			}
		}
		return total
	}
	want := 5
	if strings.HasPrefix(args[3], "go:") {
		want = 20 // each request sleeps four times
	}
	if args[0] == "top" { // it prints nothing for a part of an interval
		require.Eventually(t, func() bool { return count() == want }, testenv.Patience, 10*time.Millisecond)
	}
	w.interrupt(t, tr.Process)
	require.Equal(t, want, count(), tr.Dump())
}

// TestFamilyHalf: of two programs below a shell only one listens, so that the kernel is asked. Without the kernel, a sentence
// says that the other is not seen.
func TestFamilyHalf(t *testing.T) {
	testenv.NeedsRoot(t)
	script := `tail --pid=$$ -f /dev/null | "$0" operator >&2 & "$0" operator; :`
	p := startIn(t, t.TempDir(), exec.Command("sh", "-c", script, tracetest.Build(t, "subject")))
	p.WaitSaid(regexp.MustCompile("^ready$"), testenv.Patience)
	tell(p, "listen")
	args := []string{"count", "-v", "-p", pid(p), "-d", "10ms", "operator:request__end"}
	require.Eventually(t, func() bool { // when both are there
		return strings.Contains(runCommand(t, args...).stderr, "the events come from the kernel")
	}, testenv.Patience, 10*time.Millisecond)
	r := runCommand(t, append(args, "--via", "socket")...)
	require.Contains(t, r.stderr, "operator:request__end is not among the probes")
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf/features"
	"github.com/stretchr/testify/require"
)

// TestMain builds the command and lets only one run of these tests use the machine at a time.
//
// A test calls t.Parallel if it disturbs no other one: it traces processes by their PIDs, or has a provider of its own. A test
// that traces subjects in all processes, or in all of a user, does not: it would see, and attach to, those of the others.
func TestMain(m *testing.M) {
	tracetest.ParallelMain(4) // the tests wait most of the time
	tracetest.TracefsMain()   // which bpftrace needs from 0.25 on
	// With -a, the commands of two runs would trace each other's subjects.
	if err := tracetest.LockMachine(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("CGO_ENABLED", "0") // as the command is distributed
	tracetest.BuildMain(m)
}

// names is the number of names that unique has returned.
var names atomic.Int32

// unique returns a name for a provider that no other test has.
func unique(name string) string { return fmt.Sprintf("%s_%d", name, names.Add(1)) }

// stapsdt returns the path of the command.
func stapsdt(t testing.TB) string { return tracetest.Stapsdt(t) }

// result is what a run of the command printed, and how it ended.
type result struct {
	stdout, stderr string
	status         int
}

// ends requires that the command has ended with a status, and has said something.
func (r result) ends(t testing.TB, status int, says ...string) {
	t.Helper()
	require.Equal(t, status, r.status, r.stderr)
	for _, text := range says {
		require.Contains(t, r.stderr, text)
	}
}

// runCommand runs the command until it ends by itself.
func runCommand(t testing.TB, args ...string) result {
	t.Helper()
	return runToEnd(t, exec.Command(stapsdt(t), args...))
}

func runToEnd(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	timer := time.AfterFunc(testenv.Patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	r := result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if r.status != 0 {
		testenv.NeedsBTFIf(t, r.stderr)
	}
	t.Logf("%s\n%s%s(status %d)", strings.Join(cmd.Args[1:], " "), r.stdout, r.stderr, r.status)
	return r
}

// startProcess starts a program of these tests, and waits until it is ready.
func startProcess(t testing.TB, cmd *exec.Cmd) *tracetest.Process {
	t.Helper()
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	return p
}

// startIn is startProcess with a directory for images.
func startIn(t testing.TB, directory string, cmd *exec.Cmd) *tracetest.Process {
	t.Helper()
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+directory)
	return startProcess(t, cmd)
}

// runTool runs a program, which must succeed, and returns what it prints.
func runTool(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return string(text)
}

// interrupt interrupts a program, which ends well.
func interrupt(t testing.TB, p interface {
	Signal(os.Signal)
	Wait(time.Duration) error
	Dump() string
}) {
	t.Helper()
	p.Signal(os.Interrupt)
	err := p.Wait(testenv.Patience)
	if err != nil {
		testenv.NeedsBTFIf(t, p.Dump())
	}
	require.NoError(t, err)
}

func (tr *tracer) interrupt() { interrupt(tr.t, tr) }

// startGoSubject starts the program in Go. Its images are in a directory of the test.
func startGoSubject(t testing.TB, args ...string) *tracetest.Process {
	t.Helper()
	return startIn(t, t.TempDir(), exec.Command(tracetest.Build(t, "subject"), args...))
}

// needsSDT returns the path of gcc. It skips the test without <sys/sdt.h>.
func needsSDT(t testing.TB) (gcc string) {
	t.Helper()
	headers, _ := filepath.Glob("/usr/include/*/sys/sdt.h")
	if _, err := os.Stat("/usr/include/sys/sdt.h"); len(headers) == 0 {
		testenv.Needs(t, "sys/sdt.h (package systemtap-sdt-dev)", err)
	}
	return testenv.NeedsTool(t, "gcc", "gcc")
}

// compileText compiles a program in C. It skips the test without gcc and <sys/sdt.h>.
func compileText(t testing.TB, path, source string, flags ...string) {
	t.Helper()
	cmd := exec.Command(needsSDT(t), append(flags, "-x", "c", "-o", path, "-")...)
	cmd.Stdin = strings.NewReader(source)
	runTool(t, cmd)
}

// startCSubject starts the program in C.
func startCSubject(t testing.TB) (p *tracetest.Process, path string) {
	t.Helper()
	gcc := needsSDT(t)
	path = filepath.Join(t.TempDir(), "csubject")
	runTool(t, exec.Command(gcc, "-O2", "-Wall", "-o", path, "testdata/subject.c"))
	p = startProcess(t, exec.Command(path))
	return p, path
}

// tell tells a subject something and waits until it is done.
func tell(p *tracetest.Process, line string) {
	p.Say(line)
	p.Expect("ok", testenv.Patience)
}

// lines decodes JSON lines.
func lines[T any](t testing.TB, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v T
		objects.Decode(t, line, &v)
		all = append(all, v)
	}
	return all
}

func pid(p *tracetest.Process) string { return strconv.Itoa(p.PID()) }

// event is a line of trace -o json.
type event struct {
	Time            time.Time
	Provider, Probe string
	PID, TID        int
	Comm            string
	Args            map[string]any
	Cut             []string
}

// tracer is a command that runs until it is told to stop.
type tracer struct {
	*tracetest.Process
	t testing.TB
}

// startTrace starts the command, and returns when it is attached to all that it is told to trace
// in the subject. It attaches to one probe after the other.
func startTrace(t testing.TB, subject *tracetest.Process, args ...string) *tracer {
	t.Helper()
	testenv.NeedsRoot(t)
	single := slices.Contains(args, "--single") || features.HaveBPFLinkUprobeMulti() != nil // the kernel patches a site before it has the program
	if single {
		args = append(args, "-v")
	}
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), args...)), t}
	tr.until(func() bool { return areTraced(subject, args) })
	if single {
		tr.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
	}
	return tr
}

// until waits until a condition holds, as long as the command has not ended.
func (tr *tracer) until(condition func() bool) {
	tr.t.Helper()
	holds := false
	require.Eventually(tr.t, func() bool {
		ended := tr.Ended()
		holds = condition()
		return holds || ended
	}, testenv.Patience, 5*time.Millisecond)
	if !holds {
		testenv.NeedsBTFIf(tr.t, tr.Dump())
		tr.t.Fatalf("it has ended too soon: %s", tr.Dump())
	}
}

// specs matches an argument of the command that is the name of probes, and takes the file
// from it.
var specs = regexp.MustCompile(`^(?:/[^ ]*:)?([\w*?\[\]]+:[\w*?\[\]]+)$`)

// areTraced reports whether every probe of a subject that the command's arguments name is
// traced, at all of its sites.
func areTraced(subject *tracetest.Process, args []string) bool {
	probes := tracetest.TracedProbes(pid(subject))
	found := false
	for _, arg := range args {
		spec := specs.FindStringSubmatch(arg)
		if spec == nil {
			continue
		}
		for name, sites := range probes {
			if matches, err := path.Match(spec[1], name); err != nil || !matches {
				continue
			}
			if sites.Traced < sites.Sites {
				return false
			}
			found = true
		}
	}
	return found
}

// isTraced reports whether a tracer is attached to any site of a subject.
func isTraced(subject *tracetest.Process) bool { return isPIDTraced(pid(subject)) }

// isPIDTraced is isTraced for a process that is known by its PID.
func isPIDTraced(pid string) bool {
	for _, sites := range tracetest.TracedProbes(pid) {
		if sites.Traced > 0 {
			return true
		}
	}
	return false
}

// waitForEnd waits until the command ends by itself, with a status of 0.
func (tr *tracer) waitForEnd() []event {
	tr.t.Helper()
	require.NoError(tr.t, tr.Wait(testenv.Patience))
	return lines[event](tr.t, strings.Join(tr.Lines(), "\n"))
}

// stop interrupts the command, and returns what it traced.
func (tr *tracer) stop() []event {
	tr.t.Helper()
	tr.Signal(os.Interrupt)
	return tr.waitForEnd()
}

func args(events []event, name string) (all []any) {
	for _, e := range events {
		all = append(all, e.Args[name])
	}
	return all
}

// of returns the events of a process.
func of(p *tracetest.Process, events []event) []event {
	return slices.DeleteFunc(events, func(e event) bool { return e.PID != p.PID() })
}

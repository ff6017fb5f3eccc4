//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestMain builds the command and lets only one run of these tests use the machine at a time.
//
// A test calls t.Parallel if it disturbs no other one: it traces processes by their PIDs, or has a provider of its own. A test
// that traces subjects in all processes, or in all of a user, does not: it would see, and attach to, those of the others.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "4") // the tests wait most of the time
	}
	tracetest.TracefsMain() // which doctor looks for
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
func stapsdt(t testing.TB) string { return tracetest.Build(t, "../../../cmd/stapsdt") }

// result is what a run of the command printed, and how it ended.
type result struct {
	stdout, stderr string
	status         int
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
	t.Logf("%s\n%s%s(status %d)", strings.Join(cmd.Args[1:], " "), r.stdout, r.stderr, r.status)
	return r
}

// startGoSubject starts the program in Go. Its images are in a directory of the test.
func startGoSubject(t testing.TB, args ...string) *tracetest.Process {
	t.Helper()
	cmd := exec.Command(tracetest.Build(t, "subject"), args...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	return p
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
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// startCSubject starts the program in C.
func startCSubject(t testing.TB) (p *tracetest.Process, path string) {
	t.Helper()
	gcc := needsSDT(t)
	path = filepath.Join(t.TempDir(), "csubject")
	out, err := exec.Command(gcc, "-O2", "-Wall", "-o", path, "testdata/subject.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	p = tracetest.Command(t, exec.Command(path))
	p.Expect("ready", testenv.Patience)
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
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		all = append(all, v)
	}
	return all
}

func pid(p *tracetest.Process) string { return strconv.Itoa(p.PID()) }

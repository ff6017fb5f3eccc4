// Package testenv lets a test declare what it needs and where it cannot run, with the
// reason, so that no list of names elsewhere decides which tests run.
//
// A test that lacks what it needs is skipped on a laptop. With CI=true in the environment it
// fails, so that a machine that has lost a tracer does not stay green. [NeedsMachine] is for what no package installs.
//
// Table reads the numbers that Go and C share.
package testenv

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// Patience is how long tests wait for what takes a moment on a machine that does nothing else. Only
// a test that fails waits so long.
const Patience = 2 * time.Minute

// Line returns the next line that a child prints, without its end. A child that prints none within [Patience] is killed, and the
// test fails.
func Line(t testing.TB, child *exec.Cmd, out *bufio.Reader) string {
	t.Helper()
	late := time.AfterFunc(Patience, func() { _ = child.Process.Kill() })
	line, err := out.ReadString('\n')
	if !late.Stop() {
		t.Fatalf("%s printed %q, and no line in %v", child, line, Patience)
	}
	if err != nil {
		t.Fatalf("%s printed %q: %v", child, line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Needs lets a test go on where err is nil. Otherwise the test cannot be run here.
func Needs(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI needs %s: %v", what, err)
	}
	t.Skipf("needs %s: %v", what, err)
}

// NeedsRoot is [Needs] for an effective user of 0, which attaching a tracer takes, and
// becoming another user.
func NeedsRoot(t testing.TB) {
	t.Helper()
	var err error
	if uid := os.Geteuid(); uid != 0 {
		err = fmt.Errorf("the user is %d", uid)
	}
	Needs(t, "root", err)
}

// NeedsTool is [Needs] for a program in $PATH, whose path it returns. The package is
// what to install.
func NeedsTool(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	Needs(t, name+" (package "+pkg+")", err)
	return path
}

// Long skips a test that takes more than a few seconds, or more than the tests of each change may depend on, where go test
// has the flag -short. scripts/test.sh sets it, and scripts/test.sh --all does not.
func Long(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: " + reason)
	}
}

// Measures is [Long] for a test whose result depends on what else the machine does: a time, a rate, a share of a processor,
// an amount of memory, a number of threads. Such a test judges by [Figure].
func Measures(t testing.TB, what string) {
	t.Helper()
	Long(t, "it measures "+what)
}

// Downloads is [Long] for a test that fetches something. Where that failed, the test is skipped, with CI=true too, because
// no change to this repository can mend it. It counts as not run: scripts/test.sh --all lists it, and fails only if it was not
// run the last time either.
func Downloads(t testing.TB, what string, err error) {
	t.Helper()
	Long(t, "it downloads "+what)
	if err == nil {
		return
	}
	record(t, "STAPSDT_NOT_RUN", map[string]any{"test": t.Name(), "what": what, "error": err.Error()})
	t.Skipf("not run: %s: %v", what, err)
}

// Figure records what a test has measured, in a unit such as "ms" or "MB", beside the bound that documents promise. One
// reading on a machine that others use proves little, so it fails the test only above twice the bound.
func Figure(t testing.TB, name string, value, bound float64, unit string) {
	t.Helper()
	t.Logf("%s: %.4g %s of at most %.4g", name, value, unit, bound)
	record(t, "STAPSDT_FIGURES", map[string]any{"test": t.Name(), "figure": name, "value": value, "bound": bound, "unit": unit})
	if value > 2*bound {
		t.Errorf("%s: %.4g %s is more than twice the bound, %.4g", name, value, unit, bound)
	}
}

// record appends a line of JSON to the file that an environment variable names.
func record(t testing.TB, variable string, v any) {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	line, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}

// NotRaced skips a test in a program that was built with the race detector.
func NotRaced(t testing.TB, reason string) {
	t.Helper()
	if built("-race", "true") {
		t.Skip("with the race detector: " + reason)
	}
}

// NotSanitized skips a test in a program that was built with the address or the memory
// sanitizer.
func NotSanitized(t testing.TB, reason string) {
	t.Helper()
	if built("-asan", "true") || built("-msan", "true") {
		t.Skip("with a sanitizer: " + reason)
	}
}

// NeedsOptimization skips a test in a program that was built without.
func NeedsOptimization(t testing.TB, reason string) {
	t.Helper()
	if setting, _ := find("-gcflags"); strings.Contains(setting, "-N") {
		t.Skip("without optimization: " + reason)
	}
}

// NotEmulated skips a test where another machine's programs are emulated, of which the
// environment variable STAPSDT_TEST_EMULATED tells.
func NotEmulated(t testing.TB, reason string) {
	t.Helper()
	if emulator := os.Getenv("STAPSDT_TEST_EMULATED"); emulator != "" {
		t.Skipf("in %s: %s", emulator, reason)
	}
}

// built reports whether this program was built with a setting of that value.
func built(key, value string) bool {
	setting, found := find(key)
	return found && setting == value
}

func find(key string) (value string, found bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
	if i < 0 {
		return "", false
	}
	return info.Settings[i].Value, true
}

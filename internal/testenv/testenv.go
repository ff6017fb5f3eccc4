// Package testenv lets a test declare what it needs and where it cannot run, with the
// reason, so that no list of names elsewhere decides which tests run.
//
// A test that lacks what it needs is skipped on a laptop. With CI=true in the environment it
// fails, so that a machine that has lost a tracer does not stay green.
//
// Table reads the numbers that Go and C share.
package testenv

import (
	"flag"
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

// Long skips a test that takes more than a few seconds where go test has the flag -short.
func Long(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: " + reason)
	}
}

// LongOnce is Long for a test that builds its programs itself, or whose programs are not
// ours. It skips the test in a program that was built without cgo, too: the one with cgo has
// done the same.
func LongOnce(t testing.TB, reason string) {
	t.Helper()
	Long(t, reason)
	if built("CGO_ENABLED", "0") {
		t.Skip("without cgo: the build with cgo has tested it")
	}
}

// Once is LongOnce for a package: its TestMain calls it first. It is for tests that only start programs
// which they build alike whatever they are built as themselves. With -short they run in either build.
func Once() {
	flag.Parse()
	if !testing.Short() && built("CGO_ENABLED", "0") {
		fmt.Println("skipped without cgo: the build with cgo has tested the same programs")
		os.Exit(0)
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

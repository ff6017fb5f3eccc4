//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main(m, map[string]func(args []string){
		"echo": func(args []string) {
			fmt.Println("args", strings.Join(args, ","), os.Getenv("GREETING"))
			fmt.Fprintln(os.Stderr, "noise")
			EachLine(func(line string) { fmt.Println("heard", line) })
			fmt.Print("bye")
		},
		"crash": func([]string) { panic("on purpose") },
	})
}

// fakeT is a testing.TB that keeps what a helper does to it.
type fakeT struct {
	testing.TB
	failed, skipped bool
	log             strings.Builder
	cleanups        []func()
}

func (f *fakeT) Helper()               {}
func (f *fakeT) Failed() bool          { return f.failed }
func (f *fakeT) Cleanup(c func())      { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Log(args ...any)       { fmt.Fprintln(&f.log, args...) }
func (f *fakeT) Fatal(args ...any)     { f.Log(args...); f.stop(&f.failed) }
func (f *fakeT) stop(what *bool)       { *what = true; runtime.Goexit() }
func (f *fakeT) Setenv(string, string) { panic("not here") }
func (f *fakeT) Fatalf(format string, args ...any) {
	f.Log(fmt.Sprintf(format, args...))
	f.stop(&f.failed)
}

func (f *fakeT) Skipf(format string, args ...any) {
	f.Log(fmt.Sprintf(format, args...))
	f.stop(&f.skipped)
}

// try runs a helper as a test of its own would.
func try(helper func(t testing.TB)) *fakeT {
	f := &fakeT{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range f.cleanups {
				c()
			}
		}()
		helper(f)
	}()
	<-done
	return f
}

func TestParseRelease(t *testing.T) {
	for s, want := range map[string][2]int{"6.18.44-vendor-v12": {6, 18}, "7.2-rc1": {7, 2}, "6.1": {6, 1}, "5.10.0": {5, 10}} {
		got, err := parseRelease(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "6", "6.", "a.b", ".1", "-6.1"} {
		_, err := parseRelease(s)
		require.Error(t, err, s)
	}
	require.True(t, KernelAtLeast(3, 99))
	require.False(t, KernelAtLeast(99, 0))
}

func TestChildConversation(t *testing.T) {
	c := Child(t, "echo", WithArgs("a", "b"), WithEnv("GREETING=hello"))
	require.Equal(t, "a,b hello", c.Expect("args", time.Minute))
	c.Say("one")
	c.Say("two")
	require.Equal(t, "wo", c.Expect("heard t", time.Minute))
	c.Say("one")
	require.Equal(t, "one", c.Expect("heard ", time.Minute), "lines before the last expected one were looked at again")
	require.Equal(t, []string{"heard one", "one"}, c.WaitMatch(regexp.MustCompile(`heard (o.*)`), time.Minute))
	c.Hangup()
	require.NoError(t, c.Wait(time.Minute))
	require.Equal(t, []string{"args a,b hello", "heard one", "heard two", "heard one", "bye"}, c.Lines())
	require.Contains(t, c.Dump(), "err| noise")
	require.Contains(t, c.Dump(), "exit status 0")
}

func TestChildFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		helper func(t testing.TB)
		log    []string
	}{
		"timeout": {func(t testing.TB) { Child(t, "echo").Expect("never", 300*time.Millisecond) }, []string{`"never"`, "out| args", "running"}},
		"ended":   {func(t testing.TB) { Child(t, "crash").Expect("never", time.Hour) }, []string{"err| panic: on purpose", "exit status 2"}},
		"unknown": {func(t testing.TB) { Child(t, "nobody").WaitLine("never", time.Hour) }, []string{`no child is called "nobody"`}},
		"runs on": {func(t testing.TB) { _ = Child(t, "echo").Wait(300 * time.Millisecond) }, []string{"still runs"}},
		"no file": {func(t testing.TB) { Command(t, exec.Command("/no/such/file")) }, []string{"no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := try(tt.helper)
			require.True(t, f.failed)
			for _, s := range tt.log {
				require.Contains(t, f.log.String(), s)
			}
		})
	}
}

func TestChildIsKilled(t *testing.T) {
	var pid int
	f := try(func(t testing.TB) {
		c := Child(t, "echo")
		c.Expect("args", time.Minute)
		pid = c.PID()
	})
	require.False(t, f.failed, f.log.String())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestBpftraceFailures(t *testing.T) {
	testenv.NeedsRoot(t)
	BpftraceCommand(t)
	for program, log := range map[string]string{
		`usdt:*:no_such_provider:probe { @ = count(); }`: "No probes to attach",
		`no such program`: "err|",
	} {
		f := try(func(t testing.TB) { Bpftrace(t, program, "-p", fmt.Sprint(os.Getpid())) })
		require.True(t, f.failed)
		require.Contains(t, f.log.String(), log)
	}
	f := try(func(t testing.TB) { Bpftrace(t, `BEGIN { printf("up\n"); }`).WaitLine("never", 500*time.Millisecond) })
	require.True(t, f.failed)
	require.Contains(t, f.log.String(), "out| up")
}

func TestBpftraceCommand(t *testing.T) {
	testenv.NeedsRoot(t)
	path := testenv.NeedsTool(t, BpftraceCommand(t)[0], "bpftrace")
	if len(BpftraceCommand(t)) == 1 {
		t.Setenv("BPFTRACE", "env LANG=C "+path)
	}
	major, minor := BpftraceVersion(t)
	require.True(t, major > 0 || minor >= 17, "%d.%d", major, minor)
	tr := Bpftrace(t, `BEGIN { printf("up\n"); } END { printf("down\n"); }`)
	require.Equal(t, []string{"up"}, tr.WaitLines(1, time.Minute))
	require.Equal(t, "up\ndown", tr.Stop())
}

func TestReadMapped(t *testing.T) {
	self, err := filepath.EvalSymlinks("/proc/self/exe")
	require.NoError(t, err)
	b := make([]byte, 4)
	require.Error(t, ReadMapped(os.Getpid(), self, 1<<40, b))
	require.Error(t, ReadMapped(os.Getpid(), "/no/such/file", 0, b))
	require.Error(t, ReadMapped(-1, self, 0, b))
}

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// judged is a test that notes how it ended, and ends no other.
type judged struct {
	testing.TB
	verdict string
}

func (j *judged) Helper()      {}
func (j *judged) Name() string { return "TestJudged" }

func (j *judged) Skipf(format string, args ...any)  { j.end("skipped: "+format, args...) }
func (j *judged) Fatalf(format string, args ...any) { j.end("failed: "+format, args...) }

func (j *judged) end(format string, args ...any) {
	j.verdict = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// judge returns how a test ended.
func judge(t *testing.T, test func(testing.TB)) string {
	j := &judged{TB: t, verdict: "went on"}
	over := make(chan struct{})
	go func() {
		defer close(over)
		test(j)
	}()
	<-over
	return j.verdict
}

// TestNeedsMachine: what the machine lacks skips a test with CI=true too, and is noted. A probe that cannot tell fails it.
func TestNeedsMachine(t *testing.T) {
	lacking := filepath.Join(t.TempDir(), "lacking")
	t.Setenv("STAPSDT_LACKING", lacking)
	t.Setenv("CI", "true")
	ask := func(err error) string {
		return judge(t, func(t testing.TB) { NeedsMachine(t, "wings", err, unix.ENOSYS, unix.ENOSPC) })
	}
	require.Equal(t, "went on", ask(nil))
	require.Equal(t, "failed: whether this machine has wings cannot be determined: permission denied", ask(unix.EACCES))
	require.NoFileExists(t, lacking)
	require.Equal(t, "skipped: this machine has no wings: fly: no space left on device", ask(&os.SyscallError{Syscall: "fly", Err: unix.ENOSPC}))
	noted, err := os.ReadFile(lacking)
	require.NoError(t, err)
	require.JSONEq(t, `{"test": "TestJudged", "what": "wings", "error": "fly: no space left on device"}`, string(noted))
	require.True(t, strings.HasPrefix(judge(t, func(t testing.TB) { Needs(t, "a tool", errors.New("none")) }), "failed: "))
}

// TestNarrow: the probe for programs of 32 bits runs one. A program for no processor at all gets the answer of a kernel that runs none.
func TestNarrow(t *testing.T) {
	NotEmulated(t, "the emulator runs programs of one architecture")
	for goarch, p := range narrow {
		p.machine = 0xfeed
		require.ErrorIs(t, p.run(t.TempDir()), unix.ENOEXEC, goarch)
	}
	p, ok := narrow[runtime.GOARCH]
	if !ok {
		t.Skip("its kernels run no programs of 32 bits")
	}
	missing := filepath.Join(t.TempDir(), "none")
	require.ErrorIs(t, p.run(missing), unix.ENOENT)
	NeedsNarrow(t)
	p.code = []byte{0, 0, 0, 0} // which is no system call: the program is ended by a signal
	require.ErrorContains(t, p.run(t.TempDir()), "signal")
}

// TestNeedsNamespaces: the kernel refuses a kind of namespaces that does not exist.
func TestNeedsNamespaces(t *testing.T) {
	t.Setenv("STAPSDT_LACKING", "") // the machine lacks nothing
	require.Contains(t, judge(t, func(t testing.TB) { NeedsNamespaces(t, "no such", unix.CLONE_VFORK) }), "skipped: this machine has no no such namespaces")
}

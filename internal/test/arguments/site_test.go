//go:build linux && (amd64 || arm64)

package arguments

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// siteVariable is set in a process that is to choose the one-byte nop: first to "want", and to "have" when the process
// looks as if it ran on a kernel that traces nothing better.
const siteVariable = "STAPSDT_TEST_ONE_BYTE"

func TestMain(m *testing.M) {
	if os.Getenv(siteVariable) == "want" {
		if err := pretend(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// pretend starts this program again as it would find itself on an old kernel: under a seccomp filter, so that it goes by
// the kernel's release instead of asking, and with a release of 2.6, which a personality pretends.
func pretend() error {
	runtime.LockOSThread() // what follows is set for a thread, and kept by exec
	const uname26 = 0x0020000
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, uname26, 0, 0); errno != 0 {
		return fmt.Errorf("personality: %w", errno)
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	filter := unix.SockFprog{Len: 1, Filter: &allow}
	// SAFETY: the kernel copies the filter within the call, as long as which both variables live.
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	runtime.KeepAlive(&filter)
	if err := os.Setenv(siteVariable, "have"); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// TestSite: the sites are of the kind that the other tests are meant to be about.
func TestSite(t *testing.T) {
	nop, err := site.ForProcess()
	require.NoError(t, err)
	kind := nop.Name
	if os.Getenv(siteVariable) != "" {
		require.Equal(t, "nop1", kind)
	}
	p := stapsdt.NewProvider("kind", stapsdt.WithDir(t.TempDir()))
	defer p.Close()
	stapsdt.NewProbe0(p, "event")
	require.NoError(t, p.Load())
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	file, err := os.ReadFile(p.Path())
	require.NoError(t, err)
	code := string(image.Host().NopByName(kind).Code) + string(image.Host().Ret)
	require.True(t, strings.HasPrefix(string(file[notes[0].Offset:]), code))
	t.Log(kind)
}

// TestOneByteSite runs the other tests with the site that older kernels trace best, which this one would not choose.
func TestOneByteSite(t *testing.T) {
	testenv.Long(t, "it runs all other tests once more")
	bpf.Need(t)
	if site.Chosen().Name != "nop5" && site.Chosen().Name != "nop10" {
		t.Skip("no other site can be chosen here")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.v", "-test.count=1", "-test.skip=^TestOneByteSite$")
	cmd.Env = append(os.Environ(), siteVariable+"=want")
	child := tracetest.Command(t, cmd)
	err = child.Wait(2 * time.Minute)
	require.NoError(t, err, child.Dump())
	for _, line := range child.Lines() {
		require.NotContains(t, line, "--- SKIP")
		if strings.Contains(line, " cases") {
			t.Log(strings.TrimSpace(line))
		}
	}
	child.WaitLine("--- PASS: TestArguments", 0)
	child.WaitLine("--- PASS: TestTyped", 0)
	child.WaitLine("--- PASS: TestStrings", 0)
}

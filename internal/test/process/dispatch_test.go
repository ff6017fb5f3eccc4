//go:build linux && (amd64 || arm64)

package process

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUserDispatch: with STAPSDT_SITE=nop1, a program survives a tracer while it lets user space
// handle all system calls that its own code does not make, as Wine does. The longer nops become such
// a call.
func TestUserDispatch(t *testing.T) {
	tracetest.NeedUprobes(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("only x86-64 has nops that become calls")
	}
	off := unix.Prctl(unix.PR_SET_SYSCALL_USER_DISPATCH, unix.PR_SYS_DISPATCH_OFF, 0, 0, 0)
	testenv.NeedsMachine(t, "dispatch of system calls to user space (Linux 5.11)", off, unix.EINVAL)
	// The C library returns from a signal by a system call, so that none may interrupt the fires.
	child := tracetest.Child(t, "dispatch",
		tracetest.WithEnv("GODEBUG=asyncpreemptoff=1", "STAPSDT_SITE=nop1", "STAPSDT_DIR="+t.TempDir()+"/images"))
	path := child.Expect("path ", testenv.Patience)
	notes := tracetest.Must(sdt.ReadFile(path))(t)
	counter := tracetest.Must(tracetest.CountUprobe(path, notes[0].Offset))(t)
	defer counter.Close()
	child.Say("attached")
	child.Expect("fired", testenv.Patience)
	require.NoError(t, child.Wait(testenv.Patience))
	hits := tracetest.Must(counter.Count())(t)
	require.Equal(t, uint64(1000), hits)
}

// dispatchChild fires while no code but the program's own may make a system call.
func dispatchChild([]string) {
	p := stapsdt.NewProvider("dispatch")
	probe := stapsdt.NewProbe0(p, "event")
	if err := p.Load(); err != nil {
		panic(err)
	}
	fmt.Println("path", p.Path())
	bufio.NewScanner(os.Stdin).Scan()
	runtime.LockOSThread()
	first, last := ownText()
	block := new([1]byte)
	// SAFETY: the kernel reads the byte at each system call of this thread until the second prctl.
	// KeepAlive keeps it until then, and the heap does not move.
	selector := uintptr(unsafe.Pointer(block))
	if err := unix.Prctl(unix.PR_SET_SYSCALL_USER_DISPATCH, unix.PR_SYS_DISPATCH_ON, first, last-first, selector); err != nil {
		panic(err)
	}
	block[0] = 1 // SYSCALL_DISPATCH_FILTER_BLOCK
	for range 1000 {
		probe.Fire()
	}
	block[0] = 0
	if err := unix.Prctl(unix.PR_SET_SYSCALL_USER_DISPATCH, unix.PR_SYS_DISPATCH_OFF, 0, 0, 0); err != nil {
		panic(err)
	}
	runtime.KeepAlive(block)
	fmt.Println("fired")
}

// ownText returns where the program's own code is.
func ownText() (first, last uintptr) {
	self, _ := os.Executable()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(maps)) {
		var mode string
		if strings.HasSuffix(line, " "+self+"\n") {
			if _, err := fmt.Sscanf(line, "%x-%x %s", &first, &last, &mode); err == nil && mode == "r-xp" {
				return first, last
			}
		}
	}
	panic("no code")
}

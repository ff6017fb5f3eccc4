//go:build linux

package site

import (
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// sysUprobe is the system call that a uprobe trampoline makes. Made from elsewhere it changes
// nothing, and its error shows which nops the kernel turns into calls (in the kernel,
// arch/x86/kernel/uprobes.c).
const sysUprobe = 336

// kernel describes the properties of the kernel on which the choice depends.
type kernel struct {
	// major and minor are the release, or zeros if it is unknown.
	major, minor int
	// seccomp reports whether a filter might kill the process for a system call that
	// the filter does not know. It is true if this cannot be determined.
	seccomp bool
	// uprobe makes the uprobe system call and returns its error.
	uprobe func() error
}

func choose() string {
	// Seccomp filters belong to threads: the call must be made by the thread that was
	// examined.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k := kernel{seccomp: filtered(), uprobe: func() error {
		if _, _, errno := unix.RawSyscall(sysUprobe, 0, 0, 0); errno != 0 {
			return errno
		}
		return nil
	}}
	k.major, k.minor = release()
	return k.site()
}

// site returns the nop that costs least while it is traced, among those to which the kernel
// lets a tracer attach. A probe to which nothing can attach is worse than a slow one, so in
// case of doubt it returns the one-byte nop.
func (k *kernel) site() string {
	if !k.seccomp {
		switch k.uprobe() {
		case unix.ENXIO:
			return "nop5"
		case unix.EPROTO:
			return "nop10"
		}
		return "nop1"
	}
	switch {
	case k.major > 7 || k.major == 7 && k.minor >= 3:
		return "nop10"
	case k.major == 7 || k.major == 6 && k.minor >= 18:
		return "nop5"
	}
	return "nop1"
}

// filtered reports whether a seccomp filter may be active.
func filtered() bool {
	return !strings.Contains(string(proc.Read("/proc/thread-self/status", 16<<10)), "\nSeccomp:\t0\n")
}

// release returns the kernel's major and minor version, or zeros.
func release() (major, minor int) {
	var uts unix.Utsname
	if unix.Uname(&uts) != nil {
		return 0, 0
	}
	return parseRelease(unix.ByteSliceToString(uts.Release[:]))
}

func parseRelease(s string) (major, minor int) {
	major, rest := leadingNumber(s)
	if major < 0 || !strings.HasPrefix(rest, ".") {
		return 0, 0
	}
	if minor, _ = leadingNumber(rest[1:]); minor < 0 {
		return 0, 0
	}
	return major, minor
}

// leadingNumber returns the number with which a string begins, or -1, and what follows it.
func leadingNumber(s string) (n int, rest string) {
	const most = 1 << 20
	digits := 0
	for ; digits < len(s) && s[digits] >= '0' && s[digits] <= '9' && n < most; digits++ {
		n = 10*n + int(s[digits]-'0')
	}
	if digits == 0 || n >= most {
		return -1, s
	}
	return n, s[digits:]
}

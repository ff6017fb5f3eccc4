package testenv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// NeedsMachine skips a test if the machine lacks a feature of its kernel, processor or file systems
// that no package can install, even with CI=true: scripts/test.sh lists such tests at its end. err
// is the result of a probe that uses nothing that the test is about. If it is nil, the test
// continues; if it is one of lacking, the test is skipped; any other error fails the test.
//
// Tests ask in this way for programs of 32 bits, another clock source, control groups of version 2
// or of memory, a limit of processes in one, namespaces (user, network, time), overlays, /dev/fuse,
// leases of temporary files, temporary files on a disk, BTF, uprobe_multi (Linux 6.6), how a process
// ended (6.15), vm.memfd_noexec (6.3) and system calls in user space (5.11). The size of a site's
// nop is asked of internal/site. No test is known to depend on huge pages, on the clock source, or
// on processors that are possible and not online.
func NeedsMachine(t testing.TB, what string, err error, lacking ...error) {
	t.Helper()
	if err == nil {
		return
	}
	if !slices.ContainsFunc(lacking, func(lack error) bool { return errors.Is(err, lack) }) {
		t.Fatalf("whether this machine has %s cannot be determined: %v", what, err)
	}
	record(t, "STAPSDT_LACKING", map[string]any{"test": t.Name(), "what": what, "error": err.Error()})
	t.Skipf("this machine has no %s: %v", what, err)
}

// NeedsLinux is [NeedsMachine] for a feature that Linux has from a release on.
func NeedsLinux(t testing.TB, major, minor int, what string) {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	var have [2]int
	if _, err := fmt.Sscanf(release, "%d.%d", &have[0], &have[1]); err != nil {
		t.Fatalf("the release %q: %v", release, err)
	}
	if slices.Compare(have[:], []int{major, minor}) < 0 {
		err := fmt.Errorf("%w: it is Linux %s, and %d.%d has it", unix.ENOSYS, release, major, minor)
		NeedsMachine(t, what, err, unix.ENOSYS)
	}
}

// NeedsBTF is [NeedsMachine] for a kernel that describes its types (CONFIG_DEBUG_INFO_BTF).
func NeedsBTF(t testing.TB) {
	t.Helper()
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	NeedsMachine(t, "description of the kernel's types (BTF)", err, unix.ENOENT)
}

// NeedsBTFIf is [NeedsBTF] if the output of a program reports that it needs the types. Without
// them, tracing with strings, keys or buckets fails from Linux 6.13 on, which concerns most tests
// of such programs. If the kernel has the types, the test continues, and fails because of the
// output.
func NeedsBTFIf(t testing.TB, said string) {
	t.Helper()
	for _, lack := range []string{"kernel that describes its types", "kernel does not describe its types"} {
		if strings.Contains(said, lack) {
			NeedsBTF(t)
		}
	}
}

// NeedsNarrow is [NeedsMachine] for programs of 32 bits. A kernel may have been built or started without them
// (ia32_emulation=0), and some processors of arm64 have none.
func NeedsNarrow(t testing.TB) {
	t.Helper()
	p := narrow[runtime.GOARCH]
	NeedsMachine(t, "programs of 32 bits", p.run(t.TempDir()), unix.ENOEXEC)
}

// program is a program of 32 bits that ends at once, with a status of 0.
type program struct {
	machine uint16
	code    []byte
}

// narrow has the program for each architecture whose kernels run programs of 32 bits.
var narrow = map[string]program{
	"amd64": {3 /* EM_386 */, []byte{0x31, 0xdb, 0x8d, 0x43, 0x01, 0xcd, 0x80}},              // xor %ebx, %ebx; lea 1(%ebx), %eax; int $0x80
	"arm64": {40 /* EM_ARM */, []byte{0, 0, 0xa0, 0xe3, 1, 0x70, 0xa0, 0xe3, 0, 0, 0, 0xef}}, // mov r0, #0; mov r7, #1; svc #0
}

// run writes the program into a directory, and executes it.
func (p program) run(directory string) error {
	const header, base = 52 + 32, 0x10000
	var file bytes.Buffer
	size := uint32(header + len(p.code))
	for _, part := range []any{
		[]byte("\x7fELF\x01\x01\x01"), make([]byte, 9), // 32 bits, little endian
		[]uint16{2 /* ET_EXEC */, p.machine}, []uint32{1, base + header, 52, 0, 0x5000000 /* EABI 5, of ARM */},
		[]uint16{52, 32, 1, 0, 0, 0},
		[]uint32{1 /* PT_LOAD */, 0, base, base, size, size, 5, 0x1000},
		p.code,
	} {
		_ = binary.Write(&file, binary.LittleEndian, part) // a Buffer takes everything
	}
	path := filepath.Join(directory, "narrow")
	syscall.ForkLock.RLock() // a process that is started meanwhile would have the program open for writing, until its own exec
	err := os.WriteFile(path, file.Bytes(), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	return exec.Command(path).Run()
}

// NeedsNamespaces is [NeedsMachine] for a kind of namespaces, such as unix.CLONE_NEWUSER, by its name, such as "user".
func NeedsNamespaces(t testing.TB, kind string, flag uintptr) {
	t.Helper()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flag}
	// The kernel was built without them, allows none (user.max_user_namespaces=0), or refuses them to this user.
	NeedsMachine(t, kind+" namespaces", cmd.Run(), unix.EINVAL, unix.ENOSYS, unix.ENOSPC, unix.EPERM)
}

// NeedsOverlay is [NeedsMachine] for overlays, and [NeedsRoot].
func NeedsOverlay(t testing.TB) {
	t.Helper()
	NeedsRoot(t)
	base := t.TempDir()
	err := unix.Mount("none", base, "tmpfs", 0, "")
	if err == nil {
		defer unix.Unmount(base, unix.MNT_DETACH)
		for _, name := range []string{"lower", "upper", "work", "merged"} {
			err = errors.Join(err, os.Mkdir(filepath.Join(base, name), 0o700))
		}
		options := strings.ReplaceAll("lowerdir=BASE/lower,upperdir=BASE/upper,workdir=BASE/work", "BASE", base)
		err = errors.Join(err, unix.Mount("none", filepath.Join(base, "merged"), "overlay", 0, options))
	}
	NeedsMachine(t, "overlays", err, unix.ENODEV)
}

// NeedsGroup is [NeedsMachine] for control groups of version 2, and returns one of that name, which is removed when the test is
// over.
func NeedsGroup(t testing.TB, name string) (path string) {
	t.Helper()
	path = filepath.Join(NeedsGroups(t), name)
	NeedsMachine(t, "control groups of version 2 that can be made", os.Mkdir(path, 0o755), unix.EROFS, unix.EACCES, unix.EPERM)
	t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

// NeedsGroups is [NeedsMachine] for control groups of version 2, and returns the directory where they are.
func NeedsGroups(t testing.TB) (directory string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[2] == "cgroup2" {
			directory = fields[1]
		}
	}
	if directory == "" {
		NeedsMachine(t, "control groups of version 2", errNotMounted, errNotMounted)
	}
	return directory
}

// errNotMounted is the answer to a probe that looks for a file system.
var errNotMounted = errors.New("not mounted")

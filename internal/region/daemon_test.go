//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package region

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// children are what this package's tests start: see child.
var children = map[string]func([]string){
	"daemon": daemonChild,
	"umask":  umaskChild,
}

// child runs this test binary as one of the children, in the way that change says, and
// returns what it has printed.
func child(t *testing.T, name string, change func(*exec.Cmd), args ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	change(cmd)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// childVariable names, in a child's environment, which of the children it is.
const childVariable = "STAPSDT_TEST_CHILD"

// TestStandardDescriptors: what a program prints to the descriptors that it has closed
// ends in no image, no parked slot and no file, though they get the numbers.
func TestStandardDescriptors(t *testing.T) {
	testenv.NotEmulated(t, "its child is a program of another machine")
	printed := child(t, "daemon", func(*exec.Cmd) {}, t.TempDir())
	require.Contains(t, printed, "ended: ")
	require.NotContains(t, printed, "problem:")
	t.Log(printed)
}

// daemonChild loads and parks, while its goroutines print to closed descriptors.
//
//	DIRECTORY
func daemonChild(args []string) {
	number, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	report := os.NewFile(uintptr(number), "report")
	problem := func(format string, a ...any) {
		fmt.Fprintf(report, "problem: "+format+"\n", a...)
		os.Exit(1)
	}
	im, buildErr := buildTest(3)
	if err != nil || buildErr != nil {
		problem("%v, %v", err, buildErr)
	}
	for fd := range 3 {
		unix.Close(fd)
	}
	var printed [3]atomic.Int64
	for fd := range 3 {
		go func() {
			for {
				if _, err := unix.Write(fd, []byte("printed")); err == nil {
					printed[fd].Add(1)
				}
				runtime.Gosched()
			}
		}()
	}
	file := filepath.Join(args[0], fileName(im.Provider, im.BuildID()))
	var loads, files int
	const enough = 500
	for ; loads < enough; loads++ {
		opts := Options{Memfd: true}
		if loads%10 == 0 {
			opts = Options{Dir: args[0]}
			os.Remove(file)
			files++
		}
		// The parked slots are made again.
		parkMemory.memory.forget()
		if err := liveAndPark(im, opts); err != nil {
			problem("load %d: %v", loads, err)
		}
	}
	fmt.Fprintln(report, "ended:", loads, "loads,", files, "of them of new files; printed",
		printed[0].Load(), printed[1].Load(), printed[2].Load())
}

// TestMemoryIsCompared: what another thread still wrote before the memory was sealed is
// found by a comparison, whether it changed the bytes or added some.
func TestMemoryIsCompared(t *testing.T) {
	fd, err := createMemfd("regiontest", mfdExec)
	require.NoError(t, err)
	m := &memfd{fd: fd}
	defer unix.Close(fd)
	require.NoError(t, write(fd, []byte("content")))
	require.NoError(t, m.check([]byte("content")))
	require.True(t, m.there())
	require.Equal(t, errPrinted, m.check([]byte("cXntent")))
	require.Equal(t, errPrinted, m.check([]byte("conten")))
	require.Equal(t, errPrinted, m.check([]byte("content!")))
}

// forget closes memory, if there is any.
func (m *memfd) forget() {
	if m != nil {
		m.close()
	}
}

// liveAndPark loads an image and parks it, and looks at what it has mapped.
func liveAndPark(im *image.Image, opts Options) error {
	var space Space
	defer space.Free()
	home, _, err := Load(&space, im, opts)
	if err != nil {
		return err
	}
	// SAFETY: the image is smaller than a page, and the page is mapped until Free.
	start := (*byte)(space.Live().Start)
	mapped := unsafe.Slice(start, len(im.Bytes))
	if !bytes.Equal(mapped, im.Bytes) {
		return fmt.Errorf("mapped in place of the image: %q", mapped)
	}
	if home.fd >= 0 && home.fd < 3 {
		return fmt.Errorf("the memory has descriptor %d", home.fd)
	}
	home.Close()
	if err := space.Park(); err != nil {
		return err
	}
	slot := parkedSlot(im.Nop)
	// SAFETY: as above.
	for page := unsafe.Slice(start, os.Getpagesize()); len(page) > 0; page = page[image.SlotSize:] {
		if !bytes.HasPrefix(page, slot[:]) {
			return fmt.Errorf("parked: %q", page[:image.SlotSize])
		}
	}
	return nil
}

// TestUmask: a directory that was made under any umask can be used, now and later.
func TestUmask(t *testing.T) {
	testenv.NotEmulated(t, "its child is a program of another machine")
	testenv.NeedsRoot(t) // who may do everything; the child is another
	for _, umask := range []string{"0", "0022", "0077", "0277", "0477", "0777"} {
		t.Run(umask, func(t *testing.T) {
			base, err := os.MkdirTemp("/tmp", "stapsdt-umask-")
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(base) })
			require.NoError(t, os.Chown(base, 12345, 12345))
			binary := filepath.Join(base, "test")
			content, err := os.ReadFile("/proc/self/exe")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(binary, content, 0o755))
			require.NoError(t, os.Chmod(base, 0o755))
			for range 2 {
				printed := child(t, "umask", asUser(12345, binary), umask, base+"/images")
				require.Contains(t, printed, "loaded at "+base+"/images/")
				info, err := os.Stat(base + "/images")
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			}
		})
	}
}

// asUser runs a child as another user, who can read that copy of the test binary.
func asUser(uid uint32, binary string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0], cmd.Dir = binary, binary, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
}

// umaskChild loads once.
//
//	UMASK DIRECTORY
func umaskChild(args []string) {
	umask, err := strconv.ParseInt(args[0], 8, 32)
	im, buildErr := buildTest(1)
	if err != nil || buildErr != nil {
		fmt.Println(err, buildErr)
		return
	}
	unix.Umask(int(umask))
	var space Space
	home, _, err := Load(&space, im, Options{Dir: args[1]})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("loaded at", home.Path())
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fuse is a FUSE file system with one file, whose server may hang.
type fuse struct {
	dir  string
	fd   int
	file atomic.Pointer[served]
	hung atomic.Bool
	over chan struct{} // closed at the end of the test
}

// served is what the file has, since a time in seconds.
type served struct {
	contents []byte
	since    uint64
}

// serveFile replaces the contents of the file, as a server does for a client on another machine.
func (fs *fuse) serveFile(contents []byte) {
	next := &served{contents: contents, since: 1}
	if before := fs.file.Load(); before != nil {
		next.since = before.since + 1
	}
	fs.file.Store(next)
}

// mountFUSE mounts a file system whose file has these contents.
func mountFUSE(t *testing.T, contents []byte) *fuse {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	testenv.Needs(t, "/dev/fuse", err)
	fs := &fuse{dir: t.TempDir(), fd: fd, over: make(chan struct{})}
	fs.serveFile(contents)
	err = unix.Mount("stapsdt", fs.dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd))
	if err != nil {
		unix.Close(fd)
		testenv.Needs(t, "the right to mount", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fs.serve()
	}()
	t.Cleanup(func() {
		close(fs.over)
		require.NoError(t, unix.Unmount(fs.dir, unix.MNT_DETACH))
		unix.Close(fd) // what still waits fails
		<-done
	})
	return fs
}

// serve answers until the file system is unmounted, or it hangs.
func (fs *fuse) serve() {
	request := make([]byte, 1<<20)
	for {
		polled := []unix.PollFd{{Fd: int32(fs.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(polled, 10)
		select {
		case <-fs.over:
			return
		default:
		}
		if n <= 0 || err != nil || fs.hung.Load() {
			continue
		}
		if n, err = unix.Read(fs.fd, request); err != nil || n < 40 {
			continue
		}
		body, failed, answers := fs.answer(binary.NativeEndian.Uint32(request[4:]), binary.NativeEndian.Uint64(request[16:]), request[40:n])
		if !answers {
			continue
		}
		reply := make([]byte, 16, 16+len(body))
		binary.NativeEndian.PutUint32(reply, uint32(16+len(body)))
		binary.NativeEndian.PutUint32(reply[4:], uint32(-int32(failed)))
		copy(reply[8:16], request[8:16]) // which request it is
		unix.Write(fs.fd, append(reply, body...))
	}
}

// answer returns the body of an answer, or an error: see linux/fuse.h. It takes no flush, as servers of
// file systems that are only read: otherwise the kernel lets each process wait for one when it exits.
func (fs *fuse) answer(op uint32, inode uint64, in []byte) (body []byte, failed unix.Errno, answers bool) {
	const (
		lookup, forget, getattr, open, read, statfs, release, start, opendir, releasedir, access = 1, 2, 3, 14, 15, 17, 18, 26, 27, 29, 34
	)
	file := fs.file.Load()
	attributes := func(inode uint64) []byte { // valid for no time
		a := make([]byte, 88)
		binary.NativeEndian.PutUint64(a, inode)
		mode, links := uint32(unix.S_IFDIR|0o755), uint32(2)
		if inode == 2 {
			mode, links = unix.S_IFREG|0o755, 1
			binary.NativeEndian.PutUint64(a[8:], uint64(len(file.contents)))
			binary.NativeEndian.PutUint64(a[32:], file.since) // when it was written
		}
		binary.NativeEndian.PutUint32(a[60:], mode)
		binary.NativeEndian.PutUint32(a[64:], links)
		return a
	}
	switch op {
	case start: // version 7.31, which has 64 bytes
		body = make([]byte, 64)
		binary.NativeEndian.PutUint32(body, 7)
		binary.NativeEndian.PutUint32(body[4:], 31)
		binary.NativeEndian.PutUint32(body[20:], 1<<16)
		return body, 0, true
	case lookup:
		if string(in) != "file\x00" {
			return nil, unix.ENOENT, true
		}
		body = make([]byte, 40)
		binary.NativeEndian.PutUint64(body, 2)
		return append(body, attributes(2)...), 0, true
	case getattr:
		return append(make([]byte, 16), attributes(inode)...), 0, true
	case open, opendir:
		return make([]byte, 16), 0, true
	case read:
		from := min(binary.NativeEndian.Uint64(in[8:]), uint64(len(file.contents)))
		to := min(from+uint64(binary.NativeEndian.Uint32(in[16:])), uint64(len(file.contents)))
		return file.contents[from:to], 0, true
	case statfs:
		return make([]byte, 80), 0, true
	case release, releasedir, access:
		return nil, 0, true
	case forget:
		return nil, 0, false
	}
	return nil, unix.ENOSYS, true
}

// TestHungFileSystem: a process that has mapped a file of a file system that does not answer stops no
// command, whether that is FUSE, which is left alone, or cannot be told. A signal ends them.
func TestHungFileSystem(t *testing.T) {
	testenv.NotEmulated(t, "the kernel speaks to a server in its own byte order")
	testenv.NeedsRoot(t)
	const provider = "hung"
	image := tracetest.Must(os.ReadFile(imageOf(t, imageDirectory(t, startExportee(t, provider)))))(t)
	for name, c := range map[string]struct {
		overlaid bool
		attached float64 // sites before it hangs
	}{"FUSE": {false, 1}, "overlay": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			fs := mountFUSE(t, image)
			directory, said := fs.dir, "on a FUSE file system"
			if c.overlaid {
				directory, said = overlay(t, fs.dir), "file system does not answer"
			}
			startProcess(t, exec.Command(tracetest.Build(t, "hostile"), "given", filepath.Join(directory, "file"), "-", "-"))
			e := startExporter(t, provider, saidRule)
			e.waitForSites("said_total", c.attached)
			fs.hung.Store(true)

			honest := startExportee(t, provider)
			r := runCommand(t, "list", "-a")
			require.Zero(t, r.status)
			require.Contains(t, r.stdout, provider+":said")
			require.Contains(t, r.stderr, said)

			tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "-a", provider+":said")), t}
			tr.WaitSaid(regexp.MustCompile(said), testenv.Patience)
			require.Eventually(t, func() bool { return len(linksOf(t, tr)) > 0 }, testenv.Patience, 10*time.Millisecond)
			for round := range 3 {
				late := startExportee(t, provider)
				for _, one := range []*tracetest.Process{honest, late} {
					e.waitForValue(`stapsdt_attached_sites{metric="said_total"}`, c.attached+float64(2+round))
					tell(one, `say "x"`)
				}
				require.EqualValues(t, 2*(round+1), e.scrape()[`said_total{text="x"}`])
			}
			for _, process := range []*tracetest.Process{tr.Process, e.Process} {
				process.Signal(syscall.SIGTERM)
				_ = process.Wait(testenv.Patience)
			}
		})
	}
}

// TestFUSEWritten: the server of a file system changes a program, which no lease prevents. Every version
// computes what it should, and its own probes are counted.
func TestFUSEWritten(t *testing.T) {
	testenv.NotEmulated(t, "the kernel speaks to a server in its own byte order")
	testenv.NeedsRoot(t)
	var contents [][]byte
	provider, programs := versions(t, 4)
	for _, program := range programs {
		content := tracetest.Must(os.ReadFile(program))(t)
		contents = append(contents, content)
	}
	// The collector waits for a thread that is between fork and exec, with all goroutines stopped, of which one must answer
	// for the file that is executed. So none is at work, and none begins; a thread in fork keeps its processor too.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.NumCPU())))
	fs := mountFUSE(t, contents[1])
	file := filepath.Join(fs.dir, "file")
	count := startCountingTrace(t, file+":"+provider+":hit")
	for round := range 6 {
		fs.serveFile(contents[1+round%3])
		before := count()
		requireTraced(t, file, 20)
		require.Eventually(t, func() bool { return count() == before+20 }, testenv.Patience, 5*time.Millisecond, "%d of round %d", count()-before, round)
	}
}

// overlay mounts an overlay of a directory, which hides what file system that is.
func overlay(t *testing.T, lower string) string {
	t.Helper()
	base := t.TempDir()
	require.NoError(t, unix.Mount("none", base, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(base, unix.MNT_DETACH) })
	for _, name := range []string{"upper", "work", "merged"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	merged := filepath.Join(base, "merged")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, filepath.Join(base, "upper"), filepath.Join(base, "work"))
	testenv.Needs(t, "overlayfs", unix.Mount("none", merged, "overlay", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(merged, unix.MNT_DETACH) })
	return merged
}

// TestOverlayCopied: an overlay copies a program whose mode changes. Processes of the copy are traced, those of the file before it
// go on to be, and no event is counted twice, also after a change that copies nothing.
func TestOverlayCopied(t *testing.T) {
	testenv.NeedsRoot(t)
	provider, programs := versions(t, 2)
	for _, name := range []string{"export", "trace -a", "trace FILE"} {
		t.Run(name, func(t *testing.T) {
			lower := t.TempDir()
			overwrite(t, programs[1], filepath.Join(lower, "app"))
			app := filepath.Join(overlay(t, lower), "app")
			count := tracersOf[name](t, provider, app)
			before := count()
			old := tracetest.Command(t, exec.Command(app, "20", "-"))
			sites := tracetest.Must(sdt.ReadFile(app))(t)
			content := tracetest.Must(os.ReadFile(app))(t)
			require.Eventually(t, func() bool {
				b := make([]byte, 1)
				return tracetest.ReadMapped(old.PID(), app, sites[0].Offset, b) == nil && b[0] != content[sites[0].Offset]
			}, testenv.Patience, time.Millisecond)
			fired := 0
			for _, mode := range []os.FileMode{0o700, 0o750} {
				require.NoError(t, os.Chmod(app, mode))
				requireTraced(t, app, 20)
				fired += 20
			}
			old.Say("fire")
			require.NoError(t, old.Wait(testenv.Patience))
			fired += 20
			require.Eventually(t, func() bool { return count()-before >= fired }, testenv.Patience, 5*time.Millisecond)
			require.Equal(t, fired, count()-before)
		})
	}
}

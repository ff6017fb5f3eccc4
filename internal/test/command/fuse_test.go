//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/fusetest"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestHungFileSystem: a process that has mapped a file of a file system that does not answer stops no
// command, whether that is FUSE, which is left alone, or cannot be told. A signal ends them.
func TestHungFileSystem(t *testing.T) {
	const provider = "hung"
	image := tracetest.Must(os.ReadFile(imageOf(t, imageDirectory(t, startExportee(t, provider)))))(t)
	for name, c := range map[string]struct {
		overlaid bool
		attached float64 // sites before it hangs
	}{"FUSE": {false, 1}, "overlay": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			fs := fusetest.Mount(t)
			fs.Serve(image)
			directory, said := fs.Dir, "on a FUSE file system"
			if c.overlaid {
				directory, said = overlay(t, fs.Dir), "file system does not answer"
			}
			hostile := startProcess(t, exec.Command(tracetest.Build(t, "hostile"), "given", filepath.Join(directory, "file"), "-", "-"))
			e := startExporter(t, provider, saidRule)
			e.waitForSites("said_total", c.attached)
			fs.Hung.Store(true)

			honest := startExportee(t, provider)
			r := runCommand(t, "list", "-a")
			require.Zero(t, r.status)
			require.Contains(t, r.stdout, provider+":said")
			require.Contains(t, r.stderr, said)
			r = runCommand(t, "list", imageOf(t, imageDirectory(t, honest)))
			require.Zero(t, r.status)
			require.Contains(t, r.stdout, provider+":said")
			require.NotContains(t, r.stderr, "file system", "it is another file")
			r = runCommand(t, "doctor", "-p", pid(hostile))
			require.Contains(t, r.stdout, "file system does not answer")
			require.NotContains(t, r.stdout, "has no probes")

			tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "-o", "json", "-a", provider+":said")), t}
			tr.WaitSaid(regexp.MustCompile(said), testenv.Patience)
			require.Eventually(t, func() bool { return isAttached(tr) }, testenv.Patience, 10*time.Millisecond)
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

// TestFUSEMounts: -p sees the probes of a program on a file system that its user has mounted, and -a does not. Of one that
// another user has mounted, doctor says that they were not looked for.
func TestFUSEMounts(t *testing.T) {
	t.Parallel()
	const provider = "mounts"
	image := tracetest.Must(os.ReadFile(imageOf(t, imageDirectory(t, startExportee(t, provider)))))(t)
	for _, by := range []int{0, user} {
		fs := fusetest.MountAs(t, by)
		fs.Serve(image)
		p := startProcess(t, exec.Command(tracetest.Build(t, "hostile"), "given", filepath.Join(fs.Dir, "file"), "-", "-"))
		own := runCommand(t, "list", "-p", pid(p))
		doctor := runCommand(t, "doctor", "-p", pid(p), "-v").stdout
		if by == 0 {
			require.Contains(t, own.stdout, provider+":said", own.stderr)
			require.NotContains(t, doctor, "left out")
		} else {
			require.Equal(t, 3, own.status)
			require.Contains(t, own.stderr, "on a FUSE file system")
			require.Contains(t, doctor, "may have probes in a file that was not opened: "+fs.Dir+"/file is left out, because it is on a FUSE file system")
		}
		require.NotContains(t, doctor, "has no probes")
		require.NotContains(t, runCommand(t, "list", "-a").stdout, fs.Dir)
	}
}

// TestFUSEDescriptor: no program can keep a command alive by a descriptor whose close waits for the
// program, whatever message it comes with.
func TestFUSEDescriptor(t *testing.T) {
	for name, args := range map[string][]string{
		"hello": {"list", "-a"},
		"list":  {"trace", "-a", "--via", "socket", "nothing:*", "-d", "10ms"},
		"watch": {"trace", "-a", "--via", "socket", "nothing:*"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := fusetest.Mount(t)
			fs.Serve([]byte("nothing"))
			hostile := exec.Command(tracetest.Build(t, "hostile"), "descriptor", filepath.Join(fs.Dir, "file"), "-", name)
			startIn(t, t.TempDir(), hostile)
			t.Cleanup(fs.Abort) // before the program ends, which closes the file too
			fs.Held.Store(true)
			c := tracetest.Command(t, exec.Command(stapsdt(t), args...))
			if name == "watch" {
				c.WaitSaid(regexp.MustCompile("no descriptor of memory came with it"), testenv.Patience)
				c.Signal(os.Interrupt)
			}
			if err := c.Wait(testenv.Patience); err != nil {
				require.ErrorContains(t, err, "exit status 3", "no other program has probes")
			}
		})
	}
}

// TestWaitingProcess: a process whose memory map waits for a page that nobody provides hides none of another user.
func TestWaitingProcess(t *testing.T) {
	const provider = "beside"
	fs := fusetest.Mount(t)
	fs.Serve(make([]byte, os.Getpagesize()))
	makeReadable(t, filepath.Dir(fs.Dir))
	hostile := unprivileged(t, tracetest.Build(t, "hostile"), "waiting", filepath.Join(fs.Dir, "file"), "-", "-")
	waiting := startProcess(t, hostile)
	t.Cleanup(fs.Abort)
	fs.Held.Store(true)
	waiting.Say("wait")
	mmap := fmt.Sprintf("%d ", unix.SYS_MMAP)
	require.Eventually(t, func() bool {
		calls, _ := filepath.Glob("/proc/" + pid(waiting) + "/task/*/syscall")
		return slices.ContainsFunc(calls, func(path string) bool {
			call, _ := os.ReadFile(path)
			return strings.HasPrefix(string(call), mmap)
		})
	}, testenv.Patience, time.Millisecond)
	e := startExporter(t, provider, saidRule)
	for n := range 3 {
		startExportee(t, provider)
		e.waitForSites("said_total", float64(n+1))
	}
	r := runCommand(t, "list", "-a")
	require.Zero(t, r.status)
	require.Contains(t, r.stdout, provider+":said")
}

// TestFUSEWritten: the server of a file system changes a program, which no lease prevents. Every version
// computes what it should, and its own probes are counted.
func TestFUSEWritten(t *testing.T) {
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
	fs := fusetest.Mount(t)
	file := filepath.Join(fs.Dir, "file")
	fs.Serve(contents[1])
	count := startCountingTrace(t, file+":"+provider+":hit")
	for round := range 6 {
		fs.Serve(contents[1+round%3])
		before := count()
		requireTraced(t, file, 20)
		require.Eventually(t, func() bool { return count() == before+20 }, testenv.Patience, 5*time.Millisecond, "%d of round %d", count()-before, round)
	}
}

// overlay mounts an overlay of a directory, which hides what file system that is.
func overlay(t *testing.T, lower string) string {
	t.Helper()
	testenv.NeedsOverlay(t)
	base := t.TempDir()
	require.NoError(t, unix.Mount("none", base, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(base, unix.MNT_DETACH) })
	for _, name := range []string{"upper", "work", "merged"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	merged := filepath.Join(base, "merged")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, filepath.Join(base, "upper"), filepath.Join(base, "work"))
	require.NoError(t, unix.Mount("none", merged, "overlay", 0, options))
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

//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestPointersToTheStack: a variable on the goroutine's stack may move until the
// very moment that the tracer is given its address.
func TestPointersToTheStack(t *testing.T) {
	// The collector, too, moves stacks, also between a fire and the next line. So none is at work, and the goroutine is a new
	// one, for which none has put off a move.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	t.Run("uncollected", func(t *testing.T) {
		p := newProvider(t, "stack")
		typed := stapsdt.NewProbe2[unsafe.Pointer, string](p, "typed")
		dynamic := tracetest.Must(p.AddProbe("dynamic", stapsdt.String, stapsdt.Uint64))(t)
		load(t, p)
		list := trace(t, &typed.Probe, dynamic)
		for depth := range 64 {
			deep(depth, func() error {
				local := [4]uint64{uint64(depth)}
				typed.Fire(unsafe.Pointer(&local), "text")
				after := uint64(uintptr(unsafe.Pointer(&local)))
				require.Equal(t, after, list[0].arg(t, list[0].read(t), 0))
				local[0]++
				return nil
			})
			deep(depth, func() error {
				local := [4]uint64{uint64(depth)}
				err := dynamic.Fire("text", unsafe.Pointer(&local))
				after := uint64(uintptr(unsafe.Pointer(&local)))
				require.NoError(t, err)
				require.Equal(t, after, list[1].arg(t, list[1].read(t), 1))
				local[0]++
				return nil
			})
		}
	})
}

// TestManyProcessesLoadAtOnce: they end with one file, and nothing beside it,
// also where a bad file was there before.
func TestManyProcessesLoadAtOnce(t *testing.T) {
	testenv.NotRaced(t, "the detector makes system calls of its own, and its programs take long to end")
	dir := t.TempDir() + "/images"
	t.Setenv("STAPSDT_DIR", dir)
	for round := range 2 {
		var children []*tracetest.Process
		for range 100 {
			children = append(children, tracetest.Child(t, "place", tracetest.WithArgs("file", "wait")))
		}
		for _, c := range children {
			c.Say("go")
		}
		paths := map[string]bool{}
		for _, c := range children {
			paths[c.Expect("loaded ", testenv.Patience)] = true
		}
		require.Len(t, paths, 1)
		// All have mapped the file that is there now.
		entries := tracetest.Must(os.ReadDir(dir))(t)
		require.Len(t, entries, 1, "%v", entries)
		file := filepath.Join(dir, entries[0].Name())
		require.True(t, paths[file], "%v", paths)
		for _, c := range children {
			maps := tracetest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.PID())))(t)
			require.Contains(t, string(maps), file+"\n")
			c.Hangup()
		}
		for _, c := range children {
			require.NoError(t, c.Wait(testenv.Patience))
		}
		if round == 0 {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.WriteFile(file, []byte("half a fi"), 0o400))
		}
	}
}

// TestMounts loads where directories cannot be used: the next place is taken, and
// Path tells a tracer where that is. Where the directory was demanded it is an error.
func TestMounts(t *testing.T) {
	testenv.NeedsRoot(t)
	for name, c := range map[string]struct {
		flags uintptr
		data  string
		fill  bool
	}{
		"noexec":    {flags: syscall.MS_NOEXEC},
		"read-only": {flags: syscall.MS_RDONLY},
		"full":      {data: "size=4k", fill: true},
		"no inodes": {data: "nr_inodes=1"},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir := base + "/stapsdt"
			require.NoError(t, os.Mkdir(dir, 0o700))
			err := syscall.Mount("tmpfs", dir, "tmpfs", c.flags, "mode=0700,"+c.data)
			testenv.Needs(t, "the right to mount", err)
			t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
			if c.fill {
				require.NoError(t, os.WriteFile(dir+"/filling", make([]byte, 4096), 0o600))
			}
			second := t.TempDir()
			t.Setenv("STAPSDT_DIR", "")
			t.Setenv("XDG_RUNTIME_DIR", base)
			t.Setenv("TMPDIR", second)
			demanded := stapsdt.NewProvider("mounts", stapsdt.WithDir(dir))
			require.ErrorIs(t, demanded.Load(), stapsdt.ErrPlace)
			require.NoError(t, demanded.Close())
			p := stapsdt.NewProvider("mounts")
			probe := stapsdt.NewProbe1[int](p, "event")
			load(t, p)
			require.Equal(t, fmt.Sprintf("%s/stapsdt-%d", second, os.Geteuid()), filepath.Dir(p.Path()))
			requireTraced(t, probe)
			list := tracetest.Must(os.ReadDir(dir))(t)
			if c.fill {
				require.Len(t, list, 1)
			} else {
				require.Empty(t, list)
			}
		})
	}
}

// requireTraced finds that what Path says is where a tracer can attach.
func requireTraced(t *testing.T, probe *stapsdt.Probe1[int]) {
	t.Helper()
	traced := trace(t, &probe.Probe)[0]
	require.True(t, probe.Enabled())
	probe.Fire(42)
	require.EqualValues(t, 42, traced.arg(t, traced.read(t), 0))
	detach([]tracedProbe{traced})
}

// TestAnotherUser loads as a user without rights, in a /tmp where another
// user has put a directory of that user's name before.
func TestAnotherUser(t *testing.T) {
	testenv.NeedsRoot(t)
	binary, tmp := publicDirectory(t)
	require.NoError(t, os.Chmod(tmp, 0o1777))
	loadAs := func(uid uint32) string {
		path, _ := placeAs(t, binary, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}, "TMPDIR="+tmp, "PATH=/bin")
		return path
	}
	path := loadAs(12345)
	require.Equal(t, tmp+"/stapsdt-12345", filepath.Dir(path))
	info := tracetest.Must(os.Stat(path))(t)
	require.EqualValues(t, 12345, info.Sys().(*syscall.Stat_t).Uid)
	// Another one's does not meet it.
	require.Equal(t, tmp+"/stapsdt-12346", filepath.Dir(loadAs(12346)))

	// Planted by an attacker: the load falls back, and puts nothing there.
	planted := tmp + "/stapsdt-12347"
	require.NoError(t, os.Mkdir(planted, 0o777))
	require.True(t, strings.HasPrefix(loadAs(12347), "/proc/"))
	require.Empty(t, entries(t, planted))
}

// TestScratchContainer traces a static hello in an empty root: no libc, no /tmp,
// no /proc.
func TestScratchContainer(t *testing.T) {
	testenv.NeedsRoot(t)
	root := t.TempDir()
	build := exec.Command("go", "build", "-o", root+"/hello", "../../../examples/hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command("/hello")
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	hello := tracetest.Command(t, cmd)
	hello.WaitLine("bpftrace -e", testenv.Patience)
	fd := memfd(t, hello.PID(), "hello")
	program := fmt.Sprintf(`usdt:/proc/%d/fd/%s:hello:greeting { printf("%%s %%d\n", str(arg0), arg1); }`, hello.PID(), fd)
	tracer := tracetest.Bpftrace(t, program)
	for _, line := range tracer.WaitLines(3, testenv.Patience) {
		var text, n string
		_, err := fmt.Sscanf(line, "hello, tracer %s %s", &text, &n)
		require.NoError(t, err, line)
		require.Equal(t, text, n)
	}
	tracer.Stop()
	entries := tracetest.Must(os.ReadDir(root))(t)
	require.Len(t, entries, 1, "%v", entries)
}

// memfd returns the descriptor of a process's memfd.
func memfd(t *testing.T, pid int, name string) string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries := tracetest.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		if link, _ := os.Readlink(dir + "/" + e.Name()); strings.HasPrefix(link, "/memfd:"+name+" ") {
			return e.Name()
		}
	}
	require.Fail(t, "no memfd")
	return ""
}

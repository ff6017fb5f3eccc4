//go:build linux && (amd64 || arm64)

package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// typedObject is no variable of a function, because the goroutine's stack may move.
var typedObject struct{ a, b uint64 }

func TestTypedProbesAsTheKernelSeesThem(t *testing.T) {
	p := newProvider(t, "typed")
	p0 := stapsdt.NewProbe0(p, "p0")
	p1 := stapsdt.NewProbe1[level](p, "p1")
	p2 := stapsdt.NewProbe2[path, int32](p, "p2")
	p6 := stapsdt.NewProbe6[bool, int8, uint16, userID, blob, unsafe.Pointer](p, "p6")
	load(t, p)
	ran := false
	p2.FireFunc(func() (path, int32) { ran = true; return "", 0 })
	require.False(t, ran, "no tracer is attached")
	list := trace(t, &p0.Probe, &p1.Probe, &p2.Probe, &p6.Probe)

	p0.Fire()
	list[0].read(t)
	p1.Fire(-3)
	require.Equal(t, values.Word(int64(-3)), list[1].arg(t, list[1].read(t), 0))
	p1.FireFunc(func() level { return -128 })
	require.Equal(t, values.Word(int64(-128)), list[1].arg(t, list[1].read(t), 0))
	p2.FireFunc(func() (path, int32) { return "/x", -1 })
	s := list[2].read(t)
	require.Equal(t, values.Word(int32(-1)), list[2].arg(t, s, 1))
	require.Equal(t, "/x\x00", textAt(list[2].arg(t, s, 0), 3))
	object := &typedObject
	p6.Fire(true, -1, 65535, 1<<63, blob("bytes"), unsafe.Pointer(object))
	s = list[3].read(t)
	for i, want := range []uint64{1, values.Word(int8(-1)), 65535, 1 << 63} {
		require.Equal(t, want, list[3].arg(t, s, i))
	}
	require.Equal(t, "bytes\x00", textAt(list[3].arg(t, s, 4), 6))
	require.Equal(t, uint64(uintptr(unsafe.Pointer(object))), list[3].arg(t, s, 5))
}

// TestPointersToTheStack: a variable on the goroutine's stack may move until the
// very moment that the tracer is given its address.
func TestPointersToTheStack(t *testing.T) {
	// The collector, too, moves stacks, also between a fire and the next line.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	p := newProvider(t, "stack")
	typed := stapsdt.NewProbe2[unsafe.Pointer, string](p, "typed")
	dynamic, err := p.AddProbe("dynamic", stapsdt.String, stapsdt.Uint64)
	require.NoError(t, err)
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
}

// textAt reads bytes that a probe was fired with. The pooled buffer is still what
// it was when the tracer could have read it: no fire has taken it since.
func textAt(addr uint64, size int) string {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return err.Error()
	}
	defer memory.Close()
	text := make([]byte, size)
	if _, err := memory.ReadAt(text, int64(addr)); err != nil {
		return err.Error()
	}
	return string(text)
}

// TestReloadWithMoreProbes: a reload finds old probes and new ones.
func TestReloadWithMoreProbes(t *testing.T) {
	p := newProvider(t, "grows")
	var probes []*stapsdt.Probe
	for n := 1; n <= 300; n *= 5 {
		for len(probes) < n {
			probe, err := p.AddProbe(fmt.Sprint("probe", len(probes)), stapsdt.Uint64)
			require.NoError(t, err)
			probes = append(probes, probe)
		}
		require.NoError(t, p.Load())
		first, last := probes[0], probes[n-1]
		ends := []*stapsdt.Probe{first}
		if first != last {
			ends = append(ends, last)
		}
		for _, traced := range trace(t, ends...) {
			require.NoError(t, traced.Fire(n))
			require.EqualValues(t, n, traced.arg(t, traced.read(t), 0))
		}
		require.NoError(t, p.Unload())
		require.False(t, first.Enabled())
	}
	require.NoError(t, p.Close())
}

// TestOneAttachTracesAllProcesses: a tracer attached to the path, without a
// process, counts the fires of three, two of which start after it; and one that
// unloads and loads again stays traced.
func TestOneAttachTracesAllProcesses(t *testing.T) {
	testenv.NeedsRoot(t)
	env := "STAPSDT_DIR=" + t.TempDir() + "/images"
	var path string
	start := func() *child {
		c := &child{tracetest.Child(t, "probes", tracetest.WithEnv(env)), t}
		c.do(order{Op: "add", Provider: "shared", Probe: "event", Types: []stapsdt.ArgType{stapsdt.Int32}})
		p := c.do(order{Op: "load", Provider: "shared"})
		if path != "" {
			require.Equal(t, path, p, "the same probes are in the same file")
		}
		path = p
		return c
	}
	repeat := func(c *child, times int) {
		c.do(order{Op: "repeat", Provider: "shared", Probe: "event", Times: times, Args: ints(stapsdt.Int32, int32(1))})
	}
	first := start()
	tracer := tracetest.Bpftrace(t, `usdt:`+path+`:shared:event { @[pid] = count(); }`)
	second, third := start(), start()
	repeat(first, 100)
	repeat(second, 200)
	repeat(third, 300)
	second.do(order{Op: "unload", Provider: "shared"})
	repeat(second, 1000) // not loaded: no tracer sees them
	second.do(order{Op: "load", Provider: "shared"})
	repeat(second, 20)
	require.ElementsMatch(t, []string{
		fmt.Sprintf("@[%d]: 100", first.PID()), fmt.Sprintf("@[%d]: 220", second.PID()), fmt.Sprintf("@[%d]: 300", third.PID()),
	}, strings.Split(tracer.Stop(), "\n"))
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
			children = append(children, tracetest.Child(t, "loadonce"))
		}
		for _, c := range children {
			c.Say("go")
		}
		paths := map[string]bool{}
		for _, c := range children {
			paths[c.Expect("loaded ", time.Minute)] = true
		}
		require.Len(t, paths, 1)
		// All have mapped the file that is there now.
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "%v", entries)
		file := filepath.Join(dir, entries[0].Name())
		require.True(t, paths[file], "%v", paths)
		for _, c := range children {
			maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.PID()))
			require.NoError(t, err)
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

func loadOnceChild([]string) {
	in := bufio.NewReader(os.Stdin)
	p := stapsdt.NewProvider("once")
	stapsdt.NewProbe1[int](p, "event")
	in.ReadString('\n')
	if err := p.Load(); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("loaded", p.Path())
	}
	in.ReadString('\n')
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
			list, err := os.ReadDir(dir)
			require.NoError(t, err)
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
	tmp := t.TempDir()
	require.NoError(t, os.Chmod(tmp, 0o1777))
	for dir := tmp; dir != "/"; dir = filepath.Dir(dir) { // the way there
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(dir, info.Mode()|0o055))
	}
	self := tmp + "/test"
	binary, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(self, binary, 0o755))
	loadAs := func(uid uint32) string {
		cmd := exec.Command(self)
		cmd.Env = []string{"STAPSDT_TEST_CHILD=loadonce", "TMPDIR=" + tmp, "PATH=/bin"}
		cmd.Dir = "/"
		cmd.Stdin = strings.NewReader("go\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(strings.TrimPrefix(string(out), "loaded "))
	}
	path := loadAs(12345)
	require.Equal(t, tmp+"/stapsdt-12345", filepath.Dir(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 12345, info.Sys().(*syscall.Stat_t).Uid)
	// Another one's does not meet it.
	require.Equal(t, tmp+"/stapsdt-12346", filepath.Dir(loadAs(12346)))

	// Planted by an attacker: the load falls back, and puts nothing there.
	for i, plant := range []func(dir string) error{
		func(dir string) error { return os.Mkdir(dir, 0o777) },
		func(dir string) error { return os.Symlink(tmp+"/stapsdt-12345", dir) },
		func(dir string) error { return os.WriteFile(dir, nil, 0o666) },
		func(dir string) error { return syscall.Mkfifo(dir, 0o666) },
	} {
		uid := uint32(20000 + i)
		dir := fmt.Sprintf("%s/stapsdt-%d", tmp, uid)
		require.NoError(t, plant(dir))
		require.True(t, strings.HasPrefix(loadAs(uid), "/proc/"))
		if info, err := os.Stat(dir); err == nil && info.IsDir() && i == 0 {
			list, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, list)
		}
	}
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
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 1, "%v", entries)
}

// memfd returns the descriptor of a process's memfd.
func memfd(t *testing.T, pid int, name string) string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if link, _ := os.Readlink(dir + "/" + e.Name()); strings.HasPrefix(link, "/memfd:"+name+" ") {
			return e.Name()
		}
	}
	require.Fail(t, "no memfd")
	return ""
}

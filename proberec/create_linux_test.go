package proberec

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain is also the programs that record to a file, and are killed: see startChild.
func TestMain(m *testing.M) {
	if path := os.Getenv("PROBEREC_CHILD"); path != "" {
		child(path)
		return
	}
	if path := os.Getenv("PROBEREC_FORK"); path != "" {
		fork(path)
		return
	}
	os.Exit(m.Run())
}

// child records numbers to path, by four goroutines, until it is killed.
func child(path string) {
	p := stapsdt.NewProvider("child")
	probe := stapsdt.NewProbe3[uint64, uint64, string](p, "event", "goroutine", "n", "text")
	r, err := Create(path, 1<<20, p)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv("PROBEREC_COUNTER") != "" { // which a test has to demand: threads then own slots
		r.writer = newWriter(r.file.Memory, r.file.Chunks, recorder.Options{Counter: true})
	}
	r.Start()
	var started sync.WaitGroup
	for g := range uint64(4) {
		started.Add(1)
		go func() {
			for n := uint64(0); ; n++ {
				probe.Fire(g, n, strings.Repeat("x", int(n%20)))
				if n == 0 {
					started.Done()
				}
			}
		}()
	}
	started.Wait()
	fmt.Println(r.Path())
	io.Copy(io.Discard, os.Stdin)
}

// startChild starts a child, of a user if one is given, and returns the path that it records to.
func startChild(t *testing.T, path string, user ...uint32) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PROBEREC_CHILD="+path)
	for _, id := range user {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, testenv.Line(t, cmd, bufio.NewReader(out))
}

// openRecording returns a reader of a recording, whose events can be read.
func openRecording(t *testing.T, path string) *recording.Reader {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return eventtest.Read(t, f)
}

// checkKilled checks a recording of a child: whole records, each goroutine's numbers in their order, and
// as many seen and lost as each shard has committed. It returns how many were seen.
func checkKilled(t *testing.T, path string) (seen int) {
	r := openRecording(t, path)
	last, whole := map[uint64]uint64{}, map[uint64]bool{}
	for e := range eventtest.Events(t, r) {
		require.Equal(t, "event", e.Probe.Name)
		n := e.Word(1)
		require.Equal(t, strings.Repeat("x", int(n%20)), string(e.Text(2)))
		if before, ok := last[e.Word(0)]; ok {
			require.Greater(t, n, before)
			if whole[e.Word(0)] && r.Head().Dropped == 0 {
				require.Equal(t, before+1, n)
			}
		}
		whole[e.Word(0)] = r.Whole(e)
		last[e.Word(0)] = n
		seen++
	}
	require.False(t, r.Head().Ended)
	all := uint64(0)
	for _, n := range last {
		all += n + 1
	}
	require.LessOrEqual(t, all, uint64(seen)+r.Lost())
	return seen
}

// TestKilled: a process that is killed while it records leaves whole records. KILLS is how many are.
func TestKilled(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	if text := os.Getenv("KILLS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	path := filepath.Join(t.TempDir(), "flight")
	events := 0
	for i := range rounds {
		t.Setenv("PROBEREC_COUNTER", []string{"", "yes"}[i%2])
		cmd, at := startChild(t, path)
		require.Equal(t, path, at)
		time.Sleep(rand.N(20 * time.Millisecond))
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		seen := checkKilled(t, path)
		require.Positive(t, seen)
		events += seen
	}
	t.Logf("%d kills left %d events", rounds, events)
}

// TestBeside: several recordings of one path are files of their own, and what ended processes leave beside it, however lately, is counted and
// removed as earlier recordings are. Files of other kinds are left alone.
func TestBeside(t *testing.T) {
	const noPID = 4194304 // what Linux gives are less
	path := filepath.Join(t.TempDir(), "flight")
	var all []*Recorder
	for i := range 4 {
		r, err := Create(path, 1)
		require.NoError(t, err)
		want := fmt.Sprint(path, ".", os.Getpid(), ".", i)
		switch i {
		case 0:
			want = path
		case 1:
			want = fmt.Sprint(path, ".", os.Getpid())
		}
		require.Equal(t, want, r.Path())
		all = append(all, r)
	}
	for i := range recordfile.Keep + 2 {
		head := recording.Head{PID: uint32(noPID + i), Chunks: 4, Reading: recording.Reading{Realtime: int64(i + 1)}}
		require.NoError(t, os.WriteFile(fmt.Sprint(path, ".", noPID+i), head.Encode(), 0o600))
	}
	others := []string{path + ".9999", path + ".x", path + ".1.x", path + ".1.2.3"} // the first may be of a process that begins
	for _, name := range others {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	// The recording of another program, whose name looks like one beside this.
	another, err := Create(path+".2", 1)
	require.NoError(t, err)
	require.NoError(t, another.Close())
	others = append(others, another.Path())
	r, err := Create(path, 1)
	require.NoError(t, err)
	require.Len(t, strings.Split(r.file.Removed, ", "), 2)
	for _, name := range append(others, all[1].Path()) {
		require.FileExists(t, name)
	}
	for i := range recordfile.Keep + 2 {
		_, err := os.Stat(fmt.Sprint(path, ".", noPID+i))
		require.Equal(t, i < 2, errors.Is(err, os.ErrNotExist), i)
	}
	for _, r := range append(all, r) {
		require.NoError(t, r.Close())
	}
	// A recording beside the path does not block a later process with the same PID: in a container that is restarted, every process has it.
	require.NoError(t, os.Remove(path))
	r, err = Create(path, 1)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, path, r.Path())
	require.NoError(t, r.Err())
	_, err = r.WriteTo(io.Discard)
	require.EqualError(t, err, "proberec: the recorder is closed: the recording is the file "+path)
}

// TestCrashStays: the recording of a process that was killed outlives those of the processes that it or the next one has started, and those
// that were ended.
func TestCrashStays(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	for _, name := range []string{"flight", "%p.rec"} {
		dir := t.TempDir()
		pattern := filepath.Join(dir, name)
		end := func(cmd *exec.Cmd) { require.NoError(t, cmd.Process.Kill()); cmd.Wait() }
		crashed, crash := startChild(t, pattern)
		for range recordfile.Keep {
			helper, _ := startChild(t, pattern)
			end(helper)
		}
		end(crashed)
		_, at := startChild(t, pattern)
		if name == "flight" {
			require.Equal(t, crash, at)
			kept, err := filepath.Glob(crash + "-*")
			require.NoError(t, err)
			require.Len(t, kept, 1)
			crash = kept[0]
		}
		var helpers []string
		for range recordfile.Keep {
			helper, at := startChild(t, pattern)
			end(helper)
			helpers = append(helpers, at)
			r, err := Create(pattern, 1)
			require.NoError(t, err)
			require.NoError(t, r.Close())
		}
		checkKilled(t, crash)
		require.FileExists(t, helpers[len(helpers)-1])
		require.NoFileExists(t, helpers[0])
		require.Equal(t, 1+recordfile.Keep+1, testenv.Entries(dir), "the one that runs, those that are kept, and the last one")
	}
}

// TestCreate: what is recorded to a file is what WriteTo and other processes read.
func TestCreate(t *testing.T) {
	p := stapsdt.NewProvider("p")
	defer p.Close()
	event := stapsdt.NewProbe2[string, time.Duration](p, "event", "path", "took")
	path := filepath.Join(t.TempDir(), "flight")
	r, err := Create(path, 1, p, nil)
	require.NoError(t, err)
	event.Fire("before Start", 1)
	r.Start()
	event.Fire("/", time.Second)
	late := stapsdt.NewProbe1[bool](p, "late", "really")
	late.Fire(true)
	lines := written(t, r)
	require.Len(t, lines, 2)
	require.Equal(t, map[string]any{"path": "/", "took": 1e9}, lines[0].Args)
	require.Equal(t, map[string]any{"really": true}, lines[1].Args)
	require.Equal(t, os.Getpid(), lines[0].PID)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSticky|0o600, info.Mode())
	require.Equal(t, recorder.Size(4), info.Size())
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	require.False(t, event.Enabled())
	event.Fire("after Close", 1)
	r.Start()
	require.False(t, event.Enabled())

	head := openRecording(t, path).Head()
	require.True(t, head.Ended)
	require.EqualValues(t, os.Getpid(), head.PID)
	require.NotZero(t, head.Start)
	require.NotZero(t, head.Boot)
	exe, err := os.Executable()
	require.NoError(t, err)
	require.Equal(t, exe, head.Executable)
}

// TestTruncated: a file that is truncated while goroutines record to it ends the recording, of which the program can learn, and
// nothing else.
func TestTruncated(t *testing.T) {
	testenv.NotEmulated(t, "a signal has no address there")
	testenv.NotRaced(t, "atomic stores are in the detector's C, in which a fault is fatal")
	for _, counter := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "flight")
		p := stapsdt.NewProvider("p")
		probe := stapsdt.NewProbe2[uint64, string](p, "event")
		r, err := Create(path, 1<<20, p)
		require.NoError(t, err)
		if counter {
			r.writer = newWriter(r.file.Memory, r.file.Chunks, recorder.Options{Counter: true})
		}
		r.Start()
		end := make(chan bool)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for n := uint64(0); ; n++ {
					select {
					case <-end:
						return
					default:
						probe.Fire(n, "text")
					}
				}
			})
		}
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, r.Err())
		require.NoError(t, os.Truncate(path, 0))
		require.Eventually(t, func() bool { return r.Err() != nil }, testenv.Patience, time.Millisecond)
		require.EqualError(t, r.Err(), "proberec: the recording "+path+" has ended: the file was truncated to 0 bytes")
		late := stapsdt.NewProbe0(p, "late")
		late.Fire()
		_, err = r.WriteJSON(io.Discard)
		require.Error(t, err)
		close(end)
		group.Wait()
		require.NoError(t, r.Close())
		p.Close()
	}
}

// TestCreateRefuses: where a recording would not be safe, Create says why, and leaves nothing behind.
func TestCreateRefuses(t *testing.T) {
	refuses := func(path, message string, size int64) {
		t.Helper()
		before := testenv.Entries(filepath.Dir(path))
		_, err := Create(path, size)
		require.ErrorContains(t, err, message)
		require.Equal(t, before, testenv.Entries(filepath.Dir(path)))
	}
	dir := t.TempDir()
	refuses(filepath.Join(dir, "missing", "deep", "flight"), "no such file or directory", 0)
	refuses(filepath.Join(dir, "missing%p", "flight"), "no such file or directory", 0)
	for _, size := range []int64{recording.MaxBytes + 1, 1 << 60, math.MaxInt64 - 1, math.MaxInt64} {
		refuses(filepath.Join(dir, "flight"), "create "+dir+"/flight: a recording has at most 1073741824 bytes", size)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	refuses(filepath.Join(dir, "directory"), "the file there is not a recording", 0)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	refuses(filepath.Join(dir, "link"), "the file there is not a recording", 0)
	refuses("", "create: the path is empty", 0)
	open := filepath.Join(dir, "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	refuses(filepath.Join(open, "flight"), open+": other users may write to it, and could replace a recording: chmod go-w", 0)

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: limit.Max}))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
	refuses(filepath.Join(dir, "flight"), "RLIMIT_FSIZE", 2<<20)
}

// TestCreateOnFileSystems: a file system without room, of memory, or read-only.
func TestCreateOnFileSystems(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("none", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	_, err := Create(filepath.Join(dir, "flight"), 4<<20)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, fmt.Sprint("takes ", recorder.Size(64), " bytes, but its file system has 1044480"))
	r, err := Create(filepath.Join(dir, "flight"), 1)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, unix.Mount("none", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = Create(filepath.Join(dir, "other"), 1)
	require.ErrorIs(t, err, unix.EROFS)
}

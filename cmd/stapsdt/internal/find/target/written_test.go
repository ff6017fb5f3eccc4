//go:build linux

package target

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// closed records whether it was closed.
type closed struct{ done atomic.Bool }

func (c *closed) Close() error {
	c.done.Store(true)
	return nil
}

// imageOf returns a file with a probe.
func imageOf(t *testing.T, provider string) (content []byte, path string) {
	t.Helper()
	dir := t.TempDir()
	p := stapsdt.NewProvider(provider, stapsdt.WithDir(dir))
	_, err := p.AddProbe("probe")
	require.NoError(t, err)
	require.NoError(t, p.Load())
	defer p.Close()
	content, err = os.ReadFile(p.Path())
	require.NoError(t, err)
	path = filepath.Join(dir, "copy.so")
	require.NoError(t, os.WriteFile(path, content, 0o700))
	return content, path
}

// TestChanged: a file is another one as soon as it is opened for writing, and nothing is attached to
// it then.
func TestChanged(t *testing.T) {
	_, path := imageOf(t, "first")
	second, _ := imageOf(t, "second")
	f := NewTracer()
	defer f.Close()
	file, err := f.Open(path)
	require.NoError(t, err)
	require.True(t, file.Guarded())
	require.False(t, file.Changed())
	same, err := f.Open(path)
	assert.NoError(t, err)
	assert.Same(t, file, same)
	c := &closed{}
	held, err := file.Hold()
	require.NoError(t, err)
	held.Keep(c)
	held.Let()
	require.NoError(t, os.WriteFile(path, second, 0))
	assert.True(t, file.Changed(), "it was written and is attached to")
	assert.True(t, c.done.Load(), "it was written and is attached to")
	_, err = file.Hold()
	assert.ErrorIs(t, err, lease.ErrBroken)
	other, err := f.Open(path)
	require.NoError(t, err)
	require.Equal(t, "second", other.Probes[0].Provider)
	require.Equal(t, file.ID, other.ID)
	f.Drop(file)
	same, err = f.Open(path)
	assert.NoError(t, err, "with the old file, the new one was forgotten")
	assert.Same(t, other, same, "with the old file, the new one was forgotten")
}

// TestIgnoredThenNamed: a file that a process has mapped is found as soon as its path was opened, although it had been
// ignored. So it is when the version of a file that a user has named is found in a process before the path is looked at again.
func TestIgnoredThenNamed(t *testing.T) {
	_, path := imageOf(t, "named")
	mapped, err := os.Open(path)
	require.NoError(t, err)
	defer mapped.Close()
	defer mapExecutable(t, mapped)()
	f := NewFinder()
	defer f.Close()
	find := func() *File {
		uses, _, err := f.Process(os.Getpid())
		require.NoError(t, err)
		i := slices.IndexFunc(uses, func(u Use) bool { return u.Path == path })
		if i < 0 {
			return nil
		}
		return uses[i].File
	}
	found := find()
	require.NotNil(t, found)
	found.stamp.ctime.Sec -= 10 // as if its last change were long ago
	f.Ignore(found)
	require.Nil(t, find())
	named, err := f.Open(path)
	require.NoError(t, err)
	require.Same(t, named, find())
}

// TestOpenForWriting: a file that another one has open for writing waits, but not forever, and what
// is written to it later is noticed.
func TestOpenForWriting(t *testing.T) {
	_, path := imageOf(t, "open")
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer writer.Close()
	defer mapExecutable(t, writer)()
	f := NewTracer()
	defer f.Close()
	isFile := func(u Use) bool { return u.Path == path }
	start := time.Now()
	for {
		uses, skipped, err := f.Process(os.Getpid())
		require.NoError(t, err)
		if i := slices.IndexFunc(uses, isFile); i >= 0 {
			require.NoError(t, skipped)
			assert.GreaterOrEqual(t, time.Since(start), patience)
			assert.False(t, uses[i].Guarded(), "after %v", time.Since(start))
			assert.False(t, uses[i].Changed(), "after %v", time.Since(start))
			_, err := writer.WriteAt([]byte{0}, 200)
			require.NoError(t, err)
			assert.True(t, uses[i].Changed(), "it was written")
			return
		}
		require.ErrorAs(t, skipped, new(*PutOff))
		require.Contains(t, f.Waiting(), os.Getpid(), "it is not looked at again")
		require.Less(t, time.Since(start), testenv.Patience, "it waits forever")
		time.Sleep(20 * time.Millisecond)
	}
}

// TestNameless: memory that its program keeps open for writing is traced at once.
func TestNameless(t *testing.T) {
	testenv.NeedsRoot(t) // memory is opened by /proc/self/map_files
	content, _ := imageOf(t, "memory")
	fd, err := unix.MemfdCreate("written", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	memory := os.NewFile(uintptr(fd), "written")
	defer memory.Close()
	_, err = memory.Write(content)
	require.NoError(t, err)
	defer mapExecutable(t, memory)()
	f := NewTracer()
	defer f.Close()
	uses, _, err := f.Process(os.Getpid())
	if assert.NoError(t, err, uses) {
		assert.True(t, slices.ContainsFunc(uses, func(u Use) bool {
			return u.Path == "/memfd:written (deleted)" && u.Guarded() && u.Probes[0].Provider == "memory"
		}), uses)
	}
}

// TestLeased: an open for reading would wait for a write lease, so that its file is put off at once, and no other. A file that was
// named has as long as one that is being written.
func TestLeased(t *testing.T) {
	_, leased := imageOf(t, "leased")
	_, other := imageOf(t, "other")
	signal.Ignore(unix.SIGIO) // by which the kernel demands the lease back
	defer signal.Reset(unix.SIGIO)
	for _, path := range []string{leased, other} {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer file.Close()
		defer mapExecutable(t, file)()
		if path == leased {
			_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
			require.NoError(t, err)
		}
	}
	f := NewFinder()
	defer f.Close()
	stalls := stall.Count()
	uses, skipped, err := f.Process(os.Getpid())
	require.NoError(t, err)
	require.EqualError(t, skipped, leased+" is postponed: a process has a write lease on it")
	require.ErrorAs(t, skipped, new(*PutOff))
	has := func(path string) bool { return slices.ContainsFunc(uses, func(u Use) bool { return u.Path == path }) }
	require.True(t, has(other))
	require.False(t, has(leased))
	require.EqualValues(t, 1, f.Skips().counts[skipUnresponsive].Load())

	_, err = f.Open(leased)
	require.ErrorIs(t, err, lease.ErrWritten)
	for _, w := range f.written {
		w.since = w.since.Add(-patience)
	}
	_, err = f.Open(leased)
	require.EqualError(t, err, leased+": another process has a write lease on the file")
	require.Equal(t, stalls, stall.Count())
}

// hang makes a file system not answer until the returned function is called.
func hang(t *testing.T, key any) (answer func()) {
	t.Helper()
	asked := make(chan struct{})
	_, err := stall.Within(time.Millisecond, key, func() (struct{}, error) { <-asked; return struct{}{}, nil }, nil)
	require.ErrorIs(t, err, stall.Err)
	return func() {
		close(asked)
		for err := stall.Err; err != nil; time.Sleep(time.Millisecond) {
			_, err = stall.Do(key, func() (struct{}, error) { return struct{}{}, nil }, nil)
		}
	}
}

// TestPutOff: a file of a file system that does not answer is put off, and found when the file system answers.
func TestPutOff(t *testing.T) {
	_, path := imageOf(t, "slow")
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	defer mapExecutable(t, file)()
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(int(file.Fd()), &stat))
	f := NewFinder()
	defer f.Close()
	answer := hang(t, stat.Dev)
	_, skipped, err := f.Process(os.Getpid())
	require.NoError(t, err)
	require.ErrorAs(t, skipped, new(*PutOff))
	answer()
	uses, skipped, err := f.Process(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, skipped)
	require.True(t, slices.ContainsFunc(uses, func(u Use) bool { return u.Path == path }))
}

// TestFunctionsPutOff: a Go program that cannot be read now is not called anything else.
func TestFunctionsPutOff(t *testing.T) {
	one, err := spec.Parse("go:nope")
	require.NoError(t, err)
	f := NewFinder()
	defer f.Close()
	f.SelectFunctions([]spec.Spec{one})
	const key = "a file system"
	content, err := openContent(key, func() (*os.File, error) { return open("/proc/self/exe") })
	require.NoError(t, err)
	defer content.Close()
	file := &File{content: content}
	answer := hang(t, key)
	file.readFunctions(f)
	answer()
	require.NoError(t, f.FunctionProblem(one))
	content.stalled.Store(false)
	file.readFunctions(f)
	require.ErrorContains(t, f.FunctionProblem(one), "there is no function nope")
}

//go:build linux

package lease

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// closer counts how often it is closed, which takes a while.
type closer struct{ closed atomic.Int32 }

func (c *closer) Close() error {
	time.Sleep(20 * time.Millisecond)
	c.closed.Add(1)
	return io.EOF
}

func take(t *testing.T, path string) (*Lease, error) {
	t.Helper()
	leases := New()
	t.Cleanup(leases.Close)
	file, err := os.Open(path)
	require.NoError(t, err)
	l, err := leases.Take(file)
	t.Cleanup(func() {
		l.Release()
		file.Close()
	})
	return l, err
}

func newFile(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	return path
}

func attach(t *testing.T, l *Lease, links io.Closer) *Attachment {
	t.Helper()
	require.NoError(t, l.Hold())
	defer l.Let()
	return l.Keep(links)
}

// TestDelay: a writer waits until what is attached too late is detached, although the lease was broken and its file closed.
func TestDelay(t *testing.T) {
	path := newFile(t)
	l, err := take(t, path)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(l.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	same := os.NewFile(uintptr(fd), path)
	defer same.Close()
	first, err := l.Delay(same)
	require.NoError(t, err)
	second, err := l.Delay(same)
	require.NoError(t, err)
	var detached atomic.Bool
	opened := make(chan bool)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		assert.NoError(t, err)
		file.Close()
		opened <- detached.Load()
	}()
	<-l.leases.Broken
	l.Break()
	require.NoError(t, l.file.Close())
	_, err = l.Delay(same)
	require.ErrorIs(t, err, ErrBroken)
	first()
	_, err = os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	detached.Store(true)
	second()
	require.True(t, <-opened)
}

// TestBreak: a writer waits until everything is detached, however long something else is being
// attached, and no longer.
func TestBreak(t *testing.T) {
	path := newFile(t)
	l, err := take(t, path)
	require.NoError(t, err)
	require.True(t, l.Held())
	require.False(t, l.Broken())
	first, second, withdrawn := &closer{}, &closer{}, &closer{}
	attach(t, l, first)
	require.NoError(t, l.Hold())
	opened := make(chan bool)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		assert.NoError(t, err)
		file.Close()
		opened <- first.closed.Load() == 1 && second.closed.Load() == 1
	}()
	assert.ErrorIs(t, l.Keep(withdrawn).Close(), io.EOF, "it need not wait for the lease")
	time.Sleep(100 * time.Millisecond)
	assert.Zero(t, first.closed.Load(), "the lease was broken while it was held")
	l.Keep(second)
	l.Let()
	assert.True(t, <-opened, "something was attached when the file was opened for writing")
	assert.ErrorIs(t, l.Hold(), ErrBroken)
	assert.True(t, l.Broken())
	assert.Equal(t, int32(1), withdrawn.closed.Load())
}

// TestSeveral: one signal can stand for several leases.
func TestSeveral(t *testing.T) {
	const count = 50
	leases := New()
	defer leases.Close()
	written := make(chan error)
	var all []*Lease
	for range count {
		path := newFile(t)
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		l, err := leases.Take(file)
		require.NoError(t, err)
		defer l.Release()
		all = append(all, l)
		go func() { written <- os.WriteFile(path, []byte("new"), 0) }()
	}
	for range count {
		assert.NoError(t, <-written)
	}
	for _, l := range all {
		assert.True(t, l.Broken(), "the kernel has broken the lease after its own time")
	}
}

// TestDetach: what was detached is not detached again, and the file can then be written.
func TestDetach(t *testing.T) {
	path := newFile(t)
	l, err := take(t, path)
	require.NoError(t, err)
	c := &closer{}
	a := attach(t, l, c)
	for range 2 {
		assert.ErrorIs(t, a.Close(), io.EOF)
	}
	assert.NoError(t, os.WriteFile(path, []byte("new"), 0))
	assert.Equal(t, int32(1), c.closed.Load())
}

// TestWritten: there is no lease on a file that another one is writing.
func TestWritten(t *testing.T) {
	path := newFile(t)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer file.Close()
	l, err := take(t, path)
	assert.ErrorIs(t, err, ErrWritten)
	assert.False(t, l.Held())
	c := &closer{}
	attach(t, l, c)
	l.Break()
	assert.Equal(t, int32(1), c.closed.Load(), "it is attached still")
}

// TestBreakMany: however much is attached, a bounded number of threads closes it.
func TestBreakMany(t *testing.T) {
	l, err := take(t, newFile(t))
	require.NoError(t, err)
	c := &closer{}
	attach(t, l, c)
	for range maxClosing { // as if other leases were broken too
		l.leases.closing <- struct{}{}
	}
	broken := make(chan bool)
	go func() { l.Break(); close(broken) }()
	time.Sleep(100 * time.Millisecond)
	assert.Zero(t, c.closed.Load())
	<-l.leases.closing
	<-broken
	assert.Equal(t, int32(1), c.closed.Load())
}

//go:build linux

package lease

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBreak: a writer waits until everything is detached, however long something else is being
// attached, and no longer.
func TestBreak(t *testing.T) {
	path := newFile(t)
	l, err := take(t, path)
	if err != nil || !l.Held() || l.Broken() {
		t.Fatal(l, err)
	}
	first, second := &closer{}, &closer{}
	if _, err := l.Attach(func() io.Closer { return first }); err != nil {
		t.Fatal(err)
	}
	opened := make(chan bool)
	if _, err := l.Attach(func() io.Closer {
		go func() {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			file.Close()
			opened <- first.closed.Load() == 1 && second.closed.Load() == 1
		}()
		time.Sleep(100 * time.Millisecond)
		return second
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case detached := <-opened:
		if !detached {
			t.Error("something was attached when the file was opened for writing")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the writer waits")
	}
	if _, err := l.Attach(func() io.Closer { return first }); !errors.Is(err, ErrBroken) || !l.Broken() {
		t.Error(err)
	}
}

// TestSeveral: one signal can stand for several leases.
func TestSeveral(t *testing.T) {
	const count = 50
	leases := New()
	defer leases.Close()
	written := make(chan error)
	for range count {
		path := newFile(t)
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		l, err := leases.Take(file)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		go func() { written <- os.WriteFile(path, []byte("new"), 0) }()
	}
	for range count {
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a writer waits")
		}
	}
}

// TestDetach: what was detached is not detached again, and the file can then be written.
func TestDetach(t *testing.T) {
	path := newFile(t)
	l, err := take(t, path)
	if err != nil {
		t.Fatal(err)
	}
	c := &closer{}
	a, err := l.Attach(func() io.Closer { return c })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Close(); err != io.EOF {
			t.Error(err)
		}
	}
	if err := os.WriteFile(path, []byte("new"), 0); err != nil {
		t.Error(err)
	}
	if n := c.closed.Load(); n != 1 {
		t.Error(n)
	}
}

// TestWritten: there is no lease on a file that another one is writing.
func TestWritten(t *testing.T) {
	path := newFile(t)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l, err := take(t, path)
	if !errors.Is(err, ErrWritten) || l.Held() {
		t.Error(err)
	}
	c := &closer{}
	if _, err := l.Attach(func() io.Closer { return c }); err != nil {
		t.Error(err)
	}
	l.Break()
	if c.closed.Load() != 1 {
		t.Error("it is attached still")
	}
}

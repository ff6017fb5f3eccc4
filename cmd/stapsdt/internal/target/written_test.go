//go:build linux

package target

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/lease"
	"golang.org/x/sys/unix"
)

// closed says whether it was closed.
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
	if _, err := p.AddProbe("probe"); err != nil {
		t.Fatal(err)
	}
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	content, err := os.ReadFile(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "copy.so")
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
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
	if err != nil || !file.Guarded() || file.Changed() {
		t.Fatal(file, err)
	}
	if same, err := f.Open(path); err != nil || same != file {
		t.Error(same, err)
	}
	c := &closed{}
	if _, err := file.Attach(func() io.Closer { return c }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, second, 0); err != nil {
		t.Fatal(err)
	}
	if !file.Changed() || !c.done.Load() {
		t.Error("it was written and is attached to")
	}
	if _, err := file.Attach(func() io.Closer { return c }); !errors.Is(err, lease.ErrBroken) {
		t.Error(err)
	}
	other, err := f.Open(path)
	if err != nil || other.Probes[0].Provider != "second" || other.ID != file.ID {
		t.Fatal(other, err)
	}
	f.Forget(file)
	if same, err := f.Open(path); err != nil || same != other {
		t.Error("with the old file, the new one was forgotten:", err)
	}
}

// TestOpenForWriting: a file that another one has open for writing waits, but not forever, and what
// is written to it later is noticed.
func TestOpenForWriting(t *testing.T) {
	_, path := imageOf(t, "open")
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	defer mapExecutable(t, writer)()
	f := NewTracer()
	defer f.Close()
	isFile := func(u Use) bool { return u.Path == path }
	start := time.Now()
	for {
		uses, _, err := f.Process(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(uses, isFile); i >= 0 {
			if time.Since(start) < patience || uses[i].Guarded() || uses[i].Changed() {
				t.Error(time.Since(start), uses[i].Guarded(), uses[i].Changed())
			}
			if _, err := writer.WriteAt([]byte{0}, 200); err != nil {
				t.Fatal(err)
			}
			if !uses[i].Changed() {
				t.Error("it was written")
			}
			return
		}
		if pids := f.Waiting(); !slices.Contains(pids, os.Getpid()) {
			t.Fatal("it is not looked at again: ", pids)
		}
		if time.Since(start) > 10*patience {
			t.Fatal("it waits forever")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestNameless: memory that its program keeps open for writing is traced at once.
func TestNameless(t *testing.T) {
	content, _ := imageOf(t, "memory")
	fd, err := unix.MemfdCreate("written", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	memory := os.NewFile(uintptr(fd), "written")
	defer memory.Close()
	if _, err := memory.Write(content); err != nil {
		t.Fatal(err)
	}
	defer mapExecutable(t, memory)()
	f := NewTracer()
	defer f.Close()
	uses, _, err := f.Process(os.Getpid())
	if err != nil || !slices.ContainsFunc(uses, func(u Use) bool {
		return u.Path == "/memfd:written (deleted)" && u.Guarded() && u.Probes[0].Provider == "memory"
	}) {
		t.Error(uses, err)
	}
}

//go:build linux

package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fake is a program that listens: this process, under the name of one of another PID namespace.
type fake struct {
	deaf    wire.Kind      // a request that it does not answer, or 0
	refusal wire.Kind      // a request that it refuses, or 0
	grants  atomic.Int64   // how many refusals there are until it no longer refuses
	watched atomic.Int64   // how often it was asked to be watched
	late    chan struct{}  // if it is not nil, it answers to Watch when this is closed
	done    sync.WaitGroup // its connections
}

// fakes lets this user's programs be those of a test alone: others that listen, as in tests of other packages, must not be watched.
func fakes(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "live") // with a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"STAPSDT_DIR", "XDG_RUNTIME_DIR", "TMPDIR"} {
		t.Setenv(name, dir)
	}
	processes = func(*socket.Newcomers) []*socket.Process {
		return slices.DeleteFunc(socket.Processes(), func(p *socket.Process) bool { return !p.Elsewhere || filepath.Dir(p.Path()) != dir })
	}
	t.Cleanup(func() { processes = (*socket.Newcomers).Processes })
	return dir
}

// listen lets the program listen until the test ends.
func (f *fake) listen(t *testing.T, dir string, pid int) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, fmt.Sprintf("%d-%d.sock", pid, fakeStart)), Net: "unix"})
	require.NoError(t, err)
	f.done.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			f.done.Go(func() { f.serve(c, pid) })
		}
	})
	t.Cleanup(func() { l.Close() })
}

func (f *fake) serve(c *net.UnixConn, pid int) {
	defer c.Close()
	for {
		kind, _, err := wire.Read(c)
		if err != nil {
			return
		}
		if kind == wire.KindWatch {
			f.watched.Add(1)
			if f.late != nil {
				<-f.late
			}
		}
		switch {
		case kind == f.deaf:
		case kind == f.refusal && f.grants.Add(-1) >= 0:
			_, _ = c.Write(wire.Append(nil, wire.KindError, (&wire.Error{Code: wire.CodeBusy, Text: "8 processes watch it already"}).Append(nil)))
		case kind == wire.KindHello:
			_, _ = c.Write(wire.Append(nil, kind, (&wire.Hello{Major: wire.Major, PID: uint32(pid)}).Append(nil)))
		case kind == wire.KindWatch:
			if err := sendMemory(c, pid); errors.Is(err, unix.EPIPE) {
				return // it was too late
			} else if err != nil {
				panic(err)
			}
		default:
			_, _ = c.Write(wire.Append(nil, wire.KindDone, nil))
		}
	}
}

// sendMemory answers to a Watch with a recording without events.
func sendMemory(c *net.UnixConn, pid int) error {
	size := recorder.Size(4)
	fd, err := unix.MemfdCreate("fake", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, size); err != nil {
		return err
	}
	memory, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	head := recording.Head{PID: uint32(pid)}
	recordfile.Describe(&head)
	recorder.New(memory, 4, recorder.Options{Head: head}).Close()
	if err := unix.Munmap(memory); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		return err
	}
	_, _, err = c.WriteMsgUnix(wire.Append(nil, wire.KindWatching, (&wire.Watching{Bytes: uint64(size)}).Append(nil)), unix.UnixRights(fd), nil)
	return err
}

// until is a consumer that ends when something is true.
type until func() bool

func (until) Event(*recording.Event, *replay.File) error { return nil }

func (u until) Tick() (next time.Duration, more bool, err error) {
	return 10 * time.Millisecond, !u(), nil
}

// warnings are what a feed says.
type warnings struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *warnings) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.b.String(), text)
}

// runAll watches all programs of this user until something is true.
func runAll(t *testing.T, enough func(*Feed) bool) (feed *Feed, said *warnings) {
	t.Helper()
	said = &warnings{}
	any := []spec.Choice{{Spec: spec.Any}}
	reader, err := replay.New(any, "", nil)
	require.NoError(t, err)
	feed, err = newFeed(&console.Console{Err: said}, &query.Config{Target: query.Target{All: true}}, reader, patterns(spec.All(any)))
	require.NoError(t, err)
	defer feed.Close()
	feed.connectAll()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	require.NoError(t, feed.Run(ctx, until(func() bool { return enough(feed) })))
	var states []int
	for s := connecting; s <= watched; s++ {
		states = append(states, feed.count(s))
	}
	require.NoError(t, ctx.Err(), "it has not come that far: %v, %d refused: %s", states, len(feed.refused), said.b.String())
	return feed, said
}

// fakeStart is when all fakes were started, and fakePID the first of their PIDs. No process of this machine has one of them: the PID of
// this process would make it refuse its own connections.
const (
	fakeStart = 7
	fakePID   = 5_000_000 // the largest PID of Linux is 4,194,304
)

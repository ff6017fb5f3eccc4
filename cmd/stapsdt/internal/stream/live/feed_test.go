//go:build linux

package live

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"

	"github.com/stretchr/testify/require"
)

// TestPause: the looks are far apart where nothing comes and the memory is large, and take a tenth of a processor at most.
func TestPause(t *testing.T) {
	const ms, µs = time.Millisecond, time.Microsecond
	const size = 32 << 20
	for _, c := range []struct {
		what string
		look look
		want time.Duration
	}{
		{"many events", look{last: 50 * ms, events: 10_000_000, took: 50 * µs}, ms},
		{"five million a second", look{last: 8 * ms, events: 40_000, took: 50 * µs}, 6553600 * time.Nanosecond},
		{"few events", look{last: ms, events: 10, took: 50 * µs}, 2 * ms},
		{"few events, for a while", look{last: 25 * ms, events: 80, took: 50 * µs}, 25 * ms},
		{"few events, for a while, in little memory", look{last: 8 * ms, events: 80, took: 50 * µs, watches: watches{size: roomySize - 1}}, 8 * ms},
		{"an event that is too young", look{last: 50 * ms, more: true, took: 50 * µs}, ms},
		{"none", look{last: ms, took: 10 * µs, ago: 2 * ms}, 2 * ms},
		{"none for a while", look{last: 32 * ms, took: 10 * µs, ago: 100 * ms}, 50 * ms},
		{"none for long", look{last: 50 * ms, took: 10 * µs, ago: time.Minute}, 100 * ms},
		{"none for long, in little memory", look{last: 50 * ms, took: 10 * µs, ago: time.Minute, watches: watches{size: roomySize - 1}}, 50 * ms},
		{"events of one of many programs", look{last: ms, events: 10, took: ms, watches: watches{programs: 1000}}, 10 * ms},
		{"many programs", look{last: 50 * ms, took: 30 * ms, ago: 100 * ms, watches: watches{programs: 1000}}, 300 * ms},
		{"the look had to wait, and the memory fills", look{last: ms, events: 10_000_000, took: 30 * ms}, ms},
	} {
		if c.look.size == 0 {
			c.look.size = size
		}
		c.look.programs = max(c.look.programs, 1)
		require.Equal(t, c.want, c.look.pause(), c.what)
	}
}

// TestScanPause: searches for programs take a hundredth of the time, unless they would be too rare.
func TestScanPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 10 * time.Millisecond: time.Second, 20 * time.Millisecond: 2 * time.Second, time.Second: 3 * time.Second,
	} {
		require.Equal(t, want, scanPause(took), took)
	}
}

// TestStale: a socket that a killed program has left is not tried again in each search.
func TestStale(t *testing.T) {
	dir := fakes(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, fmt.Sprintf("%d-%d.sock", fakePID, fakeStart)), Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	reader, err := replay.New(nil, "", nil)
	require.NoError(t, err)
	said := &warnings{}
	feed, err := newFeed(&console.Console{Err: said}, &query.Config{Target: query.Target{All: true}}, reader, nil)
	require.NoError(t, err)
	defer feed.Close()
	all := processes(nil)
	require.Len(t, all, 1)
	feed.connectAll()
	require.Empty(t, feed.programs)
	require.Len(t, feed.stale, 1)
	feed.dial(all)
	require.Empty(t, feed.programs, "it is not tried again")
	require.Empty(t, feed.refused, "a run may say that no process listens")
	require.Empty(t, said.b.String())
	later := feed.stale[all[0].Key()]
	later.until = time.Now()
	feed.stale[all[0].Key()] = later
	feed.dial(all)
	require.Len(t, feed.programs, 1, "it is tried again later")
}

func TestAlarm(t *testing.T) {
	a, err := newAlarm()
	require.NoError(t, err)
	began := time.Now()
	a.set(time.Hour)
	a.set(20 * time.Millisecond)
	require.NoError(t, a.wait())
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
	a.set(0)
	require.NoError(t, a.wait())
	a.set(time.Hour)
	a.ring()
	require.NoError(t, a.wait(), "it has rung before")
	a.set(time.Hour)
	rung := make(chan error)
	go func() { rung <- a.wait() }()
	a.ring()
	require.NoError(t, <-rung)
	require.NoError(t, a.Close())
	a.ring() // another file may have the descriptor
	require.Error(t, a.wait())
}

// TestFamily: descendants are found and stay in the family when their parent has ended, and a process that has the PID of
// another one is a stranger with all of its children.
func TestFamily(t *testing.T) {
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	own, pid := os.Getpid(), child.Process.Pid
	f := family{own: socket.Started(own)}
	require.Contains(t, f.remember(), pid)
	f[own]--
	remembered := f.remember() // this process may have other children
	require.Contains(t, remembered, pid)
	require.NotContains(t, remembered, own, "it is a stranger")
	for pid := range f {
		f[pid]--
	}
	require.Empty(t, f.remember())
	require.Empty(t, f)
	require.Empty(t, f.listening(nil))
}

// TestKnown: a process that is watched is not looked at again.
func TestKnown(t *testing.T) {
	pid, start := os.Getpid(), socket.Started(os.Getpid())
	l, err := net.Listen("unix", filepath.Join(fakes(t), fmt.Sprintf("%d-%d.sock", pid, start)))
	require.NoError(t, err)
	defer l.Close()
	f := family{pid: start}
	found := f.listening(nil)
	require.Len(t, found, 1)
	require.Empty(t, f.listening(map[socket.Key]bool{found[0].Key(): true}))
}

// TestStranger: a run does not wait for a stranger with the PID of a process that has ended.
func TestStranger(t *testing.T) {
	f := &Feed{}
	for _, c := range []struct {
		later uint64
		left  bool
	}{{0, true}, {1, false}} {
		f.named = family{os.Getpid(): socket.Started(os.Getpid()) - c.later}
		require.Equal(t, c.left, f.isNamedAlive())
	}
}

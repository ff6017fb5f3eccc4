package wire

import (
	"bytes"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hostile is what a program answers to the messages of a watcher, one after the other, with descriptors.
type hostile []struct {
	message []byte
	fds     []int
}

// play answers as a hostile program, and then says nothing more.
func (h hostile) play(c *net.UnixConn) {
	for _, answer := range h {
		if _, _, err := Read(c); err != nil {
			return
		}
		var rights []byte
		if len(answer.fds) > 0 {
			rights = unix.UnixRights(answer.fds...)
		}
		if _, _, err := c.WriteMsgUnix(answer.message, rights, nil); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, c)
}

// TestHostileProgram: whatever a program answers, a watcher has an error in time, and keeps nothing of it.
func TestHostileProgram(t *testing.T) {
	memory := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		return fd
	}
	file, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(1<<20))
	directory, err := os.Open("/")
	require.NoError(t, err)
	defer directory.Close()
	good := Append(nil, KindHello, (&Hello{Major: Major, PID: 1}).Append(nil))
	watching := func(size uint64) []byte { return Append(nil, KindWatching, (&Watching{size}).Append(nil)) }
	sealed := memory(1<<20, unix.F_SEAL_SHRINK)
	type answers = hostile
	for name, h := range map[string]answers{
		"silent":                   {},
		"garbage":                  {{[]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), nil}},
		"4 GB":                     {{[]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0}, nil}},
		"another version":          {{Append(nil, KindHello, (&Hello{Major: 2}).Append(nil)), nil}},
		"an error":                 {{Append(nil, KindError, (&Error{CodeBusy, "busy"}).Append(nil)), nil}},
		"half an error":            {{Append(nil, KindError, []byte{1}), nil}},
		"no descriptor":            {{good, nil}, {watching(1 << 20), nil}},
		"descriptors before":       {{good, []int{sealed, sealed, sealed}}, {watching(1 << 20), nil}},
		"memory that can shrink":   {{good, nil}, {watching(1 << 20), []int{memory(1<<20, 0)}}},
		"memory that is too short": {{good, nil}, {watching(1 << 20), []int{memory(4096, unix.F_SEAL_SHRINK)}}},
		"more than was asked for":  {{good, nil}, {watching(1 << 40), []int{memory(1<<40, unix.F_SEAL_SHRINK)}}},
		"no memory":                {{good, nil}, {watching(0), []int{sealed}}},
		"a file":                   {{good, nil}, {watching(1 << 20), []int{int(file.Fd())}}},
		"a directory":              {{good, nil}, {watching(1 << 20), []int{int(directory.Fd())}}},
		"half of what is promised": {{good, nil}, {watching(1 << 20)[:10], []int{sealed}}},
		"news, and then nothing":   {{good, nil}, {Append(nil, 98, []byte("news")), []int{sealed}}},
		"a list instead of memory": {{good, nil}, {Append(nil, KindProbes, make([]byte, 100)), []int{sealed}}},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := testenv.SocketPair(t)
			ended := make(chan struct{})
			go func() { defer close(ended); h.play(theirs) }()
			before := testenv.Descriptors()
			c, err := NewClient(ours, 200*time.Millisecond)
			if err == nil {
				_, err = c.Watch(Watch{Bytes: 1 << 20})
			}
			require.Error(t, err)
			t.Log(err)
			require.Equal(t, before, testenv.Descriptors(), "a descriptor is left")
			ours.Close()
			<-ended
		})
	}
}

// sendProbes answers as a program with a number of probes.
func sendProbes(c *net.UnixConn, entry []byte, probes int) {
	_, _, _ = Read(c)
	_, _ = c.Write(Append(nil, KindHello, (&Hello{Major: Major}).Append(nil)))
	_, _, _ = Read(c)
	for probes > 0 {
		n := min(probes, MaxBody/len(entry))
		if _, err := c.Write(Append(nil, KindProbes, bytes.Repeat(entry, n))); err != nil {
			return
		}
		probes -= n
	}
	_, _ = c.Write(Append(nil, KindDone, nil))
}

// listProbes lists the probes of such a program.
func listProbes(t *testing.T, entry []byte, probes int) (c *Client, n int, err error) {
	ours, theirs := testenv.SocketPair(t)
	go sendProbes(theirs, entry, probes)
	c, err = NewClient(ours, testenv.Patience)
	require.NoError(t, err)
	all, err := c.List()
	return c, len(all), err
}

// TestEndlessList: a list without an end is cut.
func TestEndlessList(t *testing.T) {
	entry := make([]byte, 16)
	entry[0] = 16
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, _, err := listProbes(t, entry, math.MaxInt)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrProbes)
	require.ErrorContains(t, err, "more than 48 MB")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*maxList))
	c.Close()
	require.Zero(t, long.Load())
}

// TestLongList: a program may have 100,000 probes, but only a few programs at a time. A closed client leaves its memory to others, and a
// program with few probes has its own.
func TestLongList(t *testing.T) {
	entry := (&recording.Probe{Provider: "provider", Name: "name_of_a_probe", Args: []recording.Arg{
		{Name: "id", Type: 8, Kind: kind.Uint64}, {Name: "status", Type: 8, Kind: kind.Uint64},
	}}).Append(nil)
	var clients []*Client
	for {
		c, n, err := listProbes(t, entry, 100_000)
		clients = append(clients, c)
		if err != nil {
			require.ErrorIs(t, err, ErrProbes)
			require.ErrorContains(t, err, "of all programs")
			break
		}
		require.Equal(t, 100_000, n)
	}
	require.Greater(t, len(clients), 3)
	require.Less(t, len(clients), 8)
	few, n, err := listProbes(t, entry, 10_000)
	require.NoError(t, err)
	require.Equal(t, 10_000, n)
	few.Close()
	for _, c := range clients {
		c.Close()
		c.Close()
	}
	require.Zero(t, long.Load())
	c, n, err := listProbes(t, entry, 100_000)
	require.NoError(t, err)
	require.Equal(t, 100_000, n)
	c.Close()
}

// TestRefusedAtOnce: a program that refuses a watcher before it has said anything, and closes the connection, is heard,
// although no Hello can be sent.
func TestRefusedAtOnce(t *testing.T) {
	ours, theirs := testenv.SocketPair(t)
	_, err := theirs.Write(Append(nil, KindError, (&Error{CodeBusy, "too many"}).Append(nil)))
	require.NoError(t, err)
	theirs.Close()
	_, err = NewClient(ours, testenv.Patience)
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, CodeBusy, refused.Code)
}

// TestGone: no error of a connection that has ended can be taken for that of a pipe.
func TestGone(t *testing.T) {
	ours, theirs := testenv.SocketPair(t)
	theirs.Close()
	_, err := NewClient(ours, testenv.Patience)
	require.ErrorIs(t, err, ErrGone)
	require.NotErrorIs(t, err, unix.EPIPE)
}

// TestListRefused: an Error in place of the list ends the request at once.
func TestListRefused(t *testing.T) {
	ours, theirs := testenv.SocketPair(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		hostile{
			{Append(nil, KindHello, (&Hello{Major: Major}).Append(nil)), nil},
			{Append(nil, KindError, (&Error{CodeUnknown, "no list"}).Append(nil)), nil},
		}.play(theirs)
	}()
	c, err := NewClient(ours, testenv.Patience)
	require.NoError(t, err)
	_, err = c.List()
	require.ErrorContains(t, err, "no list")
	ours.Close()
	<-ended
}

// TestTruncated: memory that a program shortens and seals while it is looked at is never mapped beyond its end.
func TestTruncated(t *testing.T) {
	const size = 1 << 20
	for range 3000 {
		fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		file := os.NewFile(uintptr(fd), "hostile")
		require.NoError(t, unix.Ftruncate(fd, size))
		begun, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			<-begun
			_ = unix.Ftruncate(fd, 0)
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
		}()
		close(begun)
		m, err := mapMemory(file, size, size)
		<-ended
		if err == nil {
			var st unix.Stat_t
			require.NoError(t, unix.Fstat(fd, &st))
			require.EqualValues(t, size, st.Size, "a read would raise SIGBUS")
			m.Close()
		}
		file.Close()
	}
}

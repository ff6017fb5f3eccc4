package wire

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

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

// TestEndlessList: a list without an end is cut.
func TestEndlessList(t *testing.T) {
	ours, theirs := testenv.SocketPair(t)
	go func() {
		_, _, _ = Read(theirs)
		_, _ = theirs.Write(Append(nil, KindHello, (&Hello{Major: Major}).Append(nil)))
		_, _, _ = Read(theirs)
		entry := make([]byte, 16)
		entry[0] = 16
		var body []byte
		for range MaxBody / len(entry) {
			body = append(body, entry...)
		}
		for {
			if _, err := theirs.Write(Append(nil, KindProbes, body)); err != nil {
				return
			}
		}
	}()
	c, err := NewClient(ours, testenv.Patience)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = c.List()
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "more than")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
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

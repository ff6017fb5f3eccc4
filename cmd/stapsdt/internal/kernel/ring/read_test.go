//go:build linux

package ring

import (
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// writer writes records of the current time to a ring, or discards them.
type writer struct {
	testing.TB
	ring *Ring
}

func newWriter(t testing.TB, size uint32) *writer {
	testenv.NeedsRoot(t)
	require.NoError(t, rlimit.RemoveMemlock())
	r, err := NewRing(nil, "events", size)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	r.traces = []*bpf.Trace{{Size: layout.EventHeader}}
	return &writer{t, r}
}

func (w *writer) write(n int, end asm.BuiltinFunc) {
	ins := asm.Instructions{asm.FnKtimeGetNs.Call(), asm.Mov.Reg(asm.R6, asm.R0)}
	for range n {
		ins = append(ins,
			asm.LoadMapPtr(asm.R1, w.ring.events.FD()), asm.Mov.Imm(asm.R2, layout.EventHeader), asm.Mov.Imm(asm.R3, 0),
			asm.FnRingbufReserve.Call(),
			asm.JEq.Imm(asm.R0, 0, "full"),
		)
		ins = append(ins, asm.Mov.Imm(asm.R1, 0))
		for at := int16(0); at < layout.EventHeader; at += 8 {
			ins = append(ins, asm.StoreMem(asm.R0, at, asm.R1, asm.DWord))
		}
		ins = append(ins,
			asm.StoreMem(asm.R0, layout.EventTime, asm.R6, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Imm(asm.R2, 0), end.Call(),
		)
	}
	ins = append(ins, asm.Mov.Imm(asm.R0, 0).WithSymbol("full"), asm.Return())
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: ins, License: "GPL"})
	require.NoError(w, err)
	defer prog.Close()
	_, err = prog.Run(&ebpf.RunOptions{Data: make([]byte, 14)})
	require.NoError(w, err)
}

// readable reports whether a reader of the ring would be woken up.
func (w *writer) readable() bool {
	var fds []unix.PollFd
	for _, fd := range w.ring.FDs() {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(fds, 0)
	require.NoError(w, err)
	return n > 0
}

// read returns the number of events of a Read.
func (w *writer) read(drain bool) int {
	events, err := w.ring.Read(drain)
	require.NoError(w, err)
	return len(events)
}

// TestRest: the first event of a quiet ring wakes its reader, and those after it do not, until all are delivered.
func TestRest(t *testing.T) {
	w := newWriter(t, 32<<20)
	require.False(t, w.readable())
	require.Equal(t, time.Hour, w.ring.Next(time.Hour))

	w.write(1, asm.FnRingbufSubmit)
	require.True(t, w.readable())
	shown := w.read(false)
	if shown == 0 { // else the machine was slow
		w.write(2, asm.FnRingbufSubmit)
		require.False(t, w.readable())
		require.Equal(t, slack, w.ring.Next(time.Hour))
		require.Equal(t, time.Microsecond, w.ring.Next(time.Microsecond))
	} else {
		w.write(2, asm.FnRingbufSubmit)
	}
	for shown < 3 {
		time.Sleep(w.ring.Next(slack))
		shown += w.read(false)
	}
	require.Equal(t, 3, shown)
	require.False(t, w.ring.Waiting())
	require.Equal(t, time.Hour, w.ring.Next(time.Hour))
	w.write(1, asm.FnRingbufSubmit)
	require.True(t, w.readable())
}

// TestRead: a Read takes at most a batch, and discarded records are no events.
func TestRead(t *testing.T) {
	w := newWriter(t, 1<<20)
	w.write(3, asm.FnRingbufDiscard)
	require.Zero(t, w.read(false))
	require.False(t, w.readable())
	require.Zero(t, w.ring.reader.AvailableBytes())

	w.write(2, asm.FnRingbufDiscard)
	w.write(3, asm.FnRingbufSubmit)
	w.write(2, asm.FnRingbufDiscard)
	require.Equal(t, 3, w.read(true))
	require.Zero(t, w.read(true))
	require.False(t, w.readable())

	for range (batch + 500) / 500 {
		w.write(500, asm.FnRingbufSubmit)
	}
	w.read(false)
	require.True(t, w.ring.Waiting())
	require.True(t, w.readable(), "a batch has emptied the ring")
	w.read(false)
	require.False(t, w.readable())
	require.Less(t, w.ring.rest, slack, "a small ring rests as long as a large one")
}

// TestReadAllocates: events take the memory of those before them.
func TestReadAllocates(t *testing.T) {
	w := newWriter(t, 1<<20)
	w.write(1000, asm.FnRingbufSubmit)
	require.Equal(t, 1000, w.read(true))
	w.write(1000, asm.FnRingbufSubmit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read := w.read(true)
	runtime.ReadMemStats(&after)
	require.Equal(t, 1000, read)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(100))
}

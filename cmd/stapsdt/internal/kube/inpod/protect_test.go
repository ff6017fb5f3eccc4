//go:build linux

package inpod

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greedy allocates more than it may take, under the limits of a command, and keeps it.
func greedy() {
	if err := ProtectPod(&console.Console{Err: os.Stderr}, Allowance{}); err != nil {
		panic(err)
	}
	adjusted, _ := os.ReadFile("/proc/self/oom_score_adj")
	os.Stdout.Write(adjusted)
	status, _ := os.ReadFile("/proc/self/status")
	os.Stdout.Write(regexp.MustCompile("THP_enabled:.1\n").Find(status))
	all := make([]byte, minMemory*4/3)
	for i := 0; i < len(all); i += 4096 {
		all[i] = 1
	}
	time.Sleep(testenv.Patience)
	os.Stdout.Write(all)
}

// TestProtectPod: a command is the first victim of the kernel, takes no huge pages, and ends by itself when it has taken more
// memory than it may.
func TestProtectPod(t *testing.T) {
	testenv.NotRaced(t, "the race detector takes more memory")
	c := play("greedy")
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	require.Error(t, c.Run())
	assert.Equal(t, "1000\n", out.String())
	assert.Regexp(t, "^stapsdt: this command has taken [0-9]+ bytes of the pod's memory, but may take only 25165824: this command ends\n$", problem.String())
}

// idle is how long the waiting process of the test waits, and otherTime when the other process ends, soon after a look at it.
const idle, otherTime = time.Second, 1200 * time.Millisecond

// waitBesideAnother waits in a mount namespace in which another process runs for a second, and then uses it.
func waitBesideAnother() {
	other := play("other")
	err := other.Start()
	if err == nil {
		go func() { _ = other.Wait() }() // a zombie has no namespace
		err = Wait(context.Background(), &console.Console{Err: os.Stderr}, Allowance{}, idle)
	}
	if err != nil {
		panic(err)
	}
}

// TestWait: the waiting process ends when nothing has run in its container for a while, and not before.
func TestWait(t *testing.T) {
	testenv.NeedsRoot(t)
	waiting := play("wait")
	waiting.Args = []string{"stapsdt", Verb, "wait"}
	waiting.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	began := time.Now()
	require.NoError(t, waiting.Run())
	assert.GreaterOrEqual(t, time.Since(began), otherTime+idle)
}

// TestWaitEnds: the waiting process ends with its context, as of SIGTERM.
func TestWaitEnds(t *testing.T) {
	out, err := play("end").CombinedOutput() // another process, because the limits of a command stay
	require.NoError(t, err)
	require.Empty(t, string(out))
}

// TestRoom: a command does not begin, and goes on no longer, where it would take what it is to leave.
func TestRoom(t *testing.T) {
	pod := Allowance{Limit: 64 << 20}
	require.NoError(t, pod.fits(0, 8<<20))
	require.NoError(t, pod.fits(4<<20, 12<<20))
	require.ErrorIs(t, pod.fits(4<<20+1, 12<<20), ErrShort)
	require.EqualError(t, pod.fits(31<<20, -1), "the pod is short of memory: 0 of its 67108864 bytes are left, but this command takes 32505856 and has to leave 8388608")
	require.ErrorIs(t, (&Allowance{Limit: 1 << 30}).fits(0, 1<<27-1), ErrShort)
	require.EqualError(t, pod.fits(0, 7<<20), "the pod is short of memory: 7340032 of its 67108864 bytes are left, but this command has to leave 8388608")
	require.NoError(t, (&Allowance{}).check(1<<40), "no limit")

	// Processes of this mount namespace count, and in a container that is beside, its own.
	own, beside := Allowance{Limit: 1 << 40}, Allowance{Limit: 1 << 40, Container: "none", Alone: true, Shared: true}
	assert.Less(t, own.room(), own.Limit-ownSize("RssAnon")+1<<20)
	assert.Less(t, beside.room(), beside.Limit)
	require.ErrorIs(t, (&Allowance{Limit: 1 << 20}).check(0), ErrShort)
}

// TestRingLimit: what programs may take for the events of a command is an eighth of the limit, and half of what is left.
func TestRingLimit(t *testing.T) {
	for _, c := range []struct{ limit, room, want int64 }{
		{128 << 20, 120 << 20, 16 << 20},
		{128 << 20, 20 << 20, 2 << 20},
		{128 << 20, 16<<20 + 600<<10, 0},
		{1 << 30, 900 << 20, 128 << 20},
		{32 << 20, 20 << 20, 4 << 20},
		{32 << 20, 12 << 20, 2 << 20},
		{24 << 20, 10 << 20, 1 << 20},
		{16 << 20, 8 << 20, 0},
	} {
		got, err := (&Allowance{Limit: c.limit, Shared: true}).ringLimit(c.room)
		require.Equal(t, c.want, got, c)
		require.Equal(t, c.want == 0, errors.Is(err, ErrShort), "%v: %v", c, err)
	}
	for _, a := range []Allowance{{Shared: true}, {Limit: 1 << 30}} { // without a limit, and in the container of an agent
		got, err := a.RingLimit()
		require.NoError(t, err)
		require.Zero(t, got)
	}
}

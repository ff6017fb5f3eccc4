//go:build linux

package run

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/meter"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnnouncement: the line states what the command is attached to, and what ends it.
func TestAnnouncement(t *testing.T) {
	require.Equal(t, "3 probes of 1 process; Ctrl-C ends", console.Announcement(3, 1, 2, 0))
	require.Equal(t, "1 probe of 2 processes; Ctrl-C ends", console.Announcement(1, 2, 2, 0))
	require.Equal(t, "1 probe of 1 file; ends after 10s or with Ctrl-C", console.Announcement(1, 0, 1, 10*time.Second))
}

func TestInterval(t *testing.T) { synctest.Test(t, testInterval) }

func testInterval(t *testing.T) {
	_, err := query.NewInterval(-time.Second)
	require.ErrorContains(t, err, "is negative")

	never, err := query.NewInterval(0)
	require.NoError(t, err)
	due, wait := never.Due()
	require.False(t, due)
	require.Positive(t, wait)

	hour, err := query.NewInterval(time.Hour)
	require.NoError(t, err)
	due, wait = hour.Due()
	require.False(t, due)
	require.Equal(t, time.Hour, wait)

	time.Sleep(time.Hour)
	due, wait = hour.Due()
	require.True(t, due)
	require.Zero(t, wait)
	due, wait = hour.Due()
	require.False(t, due)
	require.Equal(t, time.Hour, wait)

	time.Sleep(5*time.Hour + time.Minute) // suspended by Ctrl-Z
	due, _ = hour.Due()
	require.True(t, due)
	due, wait = hour.Due()
	require.False(t, due, "the reports that were missed are not made up for")
	require.Equal(t, time.Hour, wait)
}

// busy is a Ticker that wants to be called again at once.
type busy struct{ next time.Duration }

func (busy) FDs() []int { return nil }

func (b busy) Tick() (time.Duration, bool, error) { return b.next, true, nil }

// TestPodTicker: pods are looked for once in an interval, however often events come.
func TestPodTicker(t *testing.T) {
	looks := 0
	c := &podTicker{Ticker: busy{time.Millisecond}, update: func() { looks++ }, interval: time.Hour}
	for range 100 {
		next, more, err := c.Tick()
		assert.Equal(t, time.Millisecond, next)
		assert.True(t, more)
		assert.NoError(t, err)
	}
	assert.Equal(t, 1, looks)
	c.due = time.Now()
	c.Ticker = busy{2 * time.Hour}
	next, _, _ := c.Tick()
	assert.Equal(t, time.Hour, next)
	assert.Equal(t, 2, looks)
}

// TestWarnOfRate: a rate above the limit is worth one line, however long it lasts, and a lower one none.
func TestWarnOfRate(t *testing.T) {
	var said bytes.Buffer
	s := &stepped{Console: &console.Console{Err: &said}}
	now := time.Now()
	units := []*meter.Unit{{}, {}}
	add := func(events uint64, elapsed time.Duration) {
		units[0].Count += events / 2
		units[1].Count += events / 2
		now = now.Add(elapsed)
		s.Check(now, 0, units)
	}
	add(99_000, time.Second)
	add(150_000, 2*time.Second)
	require.Empty(t, said.String())
	add(130_000, time.Second)
	require.Equal(t, "stapsdt: 130000 events per second come from probes that the kernel single-steps, which slows the program down: see stapsdt list -v, or limit the cost with --budget\n", said.String())
	add(1_000_000, time.Second)
	require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("\n")))
}

func TestPercent(t *testing.T) {
	require.Equal(t, "1 %", percent(0.01))
	require.Equal(t, "67.5 %", percent(0.674806))
	require.Equal(t, "0.0123 %", percent(0.000123))
}

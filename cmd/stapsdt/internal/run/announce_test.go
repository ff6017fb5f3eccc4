//go:build linux

package run

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnnouncement: the line states what the command is attached to, and what ends it.
func TestAnnouncement(t *testing.T) {
	require.Equal(t, "3 probes of 1 process; Ctrl-C ends", Announcement(3, 1, 2, 0))
	require.Equal(t, "1 probe of 2 processes; Ctrl-C ends", Announcement(1, 2, 2, 0))
	require.Equal(t, "1 probe of 1 file; ends after 10s or with Ctrl-C", Announcement(1, 0, 1, 10*time.Second))
}

func TestInterval(t *testing.T) { synctest.Test(t, testInterval) }

func testInterval(t *testing.T) {
	_, err := NewInterval(-time.Second)
	require.ErrorContains(t, err, "is negative")

	never, err := NewInterval(0)
	require.NoError(t, err)
	due, wait := never.Due()
	require.False(t, due)
	require.Positive(t, wait)

	hour, err := NewInterval(time.Hour)
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
}

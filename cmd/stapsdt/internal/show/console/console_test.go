package console

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"

	"github.com/stretchr/testify/require"
)

// TestWarn: a text from a traced program can neither command the terminal nor forge a line.
func TestWarn(t *testing.T) {
	var b strings.Builder
	c := &Console{Err: &b}
	c.Warn("%s: %v", "/tmp/p\x1b[31m\nstapsdt: all is well", "a\r\n\tb")
	require.Equal(t, "stapsdt: /tmp/p\ufffd[31m\n\tstapsdt: all is well: a\ufffd\n\tb\n", b.String())
}

// TestSlow: an operation that takes a while says how far it is, until it is done.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		c, sites := &Console{Err: &b}, 0
		done := c.Slow("attaching", func() string { sites += 10; return strconv.Itoa(sites) + " sites" })
		time.Sleep(12 * time.Second)
		done()
		time.Sleep(time.Minute)
		c.Slow("nothing", nil)()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "stapsdt: attaching, which takes a while\n"+
			"stapsdt: still attaching: 10 sites\nstapsdt: still attaching: 20 sites\n", b.String())
	})
}

// messages are what was written.
type messages chan string

func (m messages) Write(b []byte) (int, error) {
	m <- string(b)
	return len(b), nil
}

// TestAbandon: a command ends after a while whatever it waits for, and later if only its results are missing.
func TestAbandon(t *testing.T) {
	said := make(messages, 1)
	exited := false
	(&Console{Err: said}).Abandon(time.Millisecond, time.Hour, func() { exited = true })
	require.True(t, exited)
	require.Contains(t, <-said, "ends without its results")

	exited = false
	unread := make(messages)
	(&Console{Err: unread}).Abandon(time.Millisecond, time.Hour, func() { exited = true })
	require.True(t, exited)
	<-unread

	exited = false
	c := &Console{Err: said}
	c.Finish()
	c.Abandon(time.Millisecond, time.Millisecond, func() { exited = true })
	require.True(t, exited)
	require.Contains(t, <-said, "within 2ms of the signal")

	exited, restored := false, false
	c = &Console{Err: said}
	c.Restore(func() { restored = true })
	c.Abandon(time.Millisecond, time.Hour, func() { exited = restored })
	require.True(t, exited)
	<-said

	exited = false
	c.Stay()
	c.Abandon(time.Millisecond, time.Millisecond, func() { exited = true })
	require.False(t, exited)
}

// TestErase: what was shown before is replaced, and the ^C of a terminal too.
func TestErase(t *testing.T) {
	require.Equal(t, "\r\x1b[K", string(Erase(0, true)))
	require.Empty(t, Erase(0, false))
	require.Equal(t, "\x1b[2A\r\x1b[J", string(Erase(2, true)))
}

// TestColumns: what is no terminal is not cut, unless COLUMNS says so.
func TestColumns(t *testing.T) {
	t.Setenv("COLUMNS", "")
	require.Equal(t, text.Unlimited, Columns(&bytes.Buffer{}))
	t.Setenv("COLUMNS", "200")
	require.Equal(t, 200, Columns(&bytes.Buffer{}))
}

// TestScreen: where there is no terminal, texts follow each other.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := Screen{Console: &Console{Out: &out, Err: &out}}
	require.NoError(t, s.Show([]byte("one\n"), false))
	require.NoError(t, s.Show([]byte("two\n"), true))
	require.Equal(t, "one\n\ntwo\n", out.String())
}

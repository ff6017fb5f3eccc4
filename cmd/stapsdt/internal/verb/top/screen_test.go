//go:build linux

package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pty is a terminal, and what was written to it.
type pty struct {
	t           *testing.T
	master, tty *os.File
	mu          sync.Mutex
	output      bytes.Buffer
}

func openPty(t *testing.T) *pty {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("LC_ALL", "C.UTF-8")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 80}))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	p := &pty{t: t, master: master, tty: tty}
	t.Cleanup(func() { master.Close(); tty.Close() })
	go func() { _, _ = io.Copy(p, master) }()
	return p
}

func (p *pty) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *pty) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func (p *pty) see(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.shown(), text) }, testenv.Patience, time.Millisecond, "%q", text)
}

func (p *pty) settings() unix.Termios {
	p.t.Helper()
	settings, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	require.NoError(p.t, err)
	return *settings
}

// restored: the last of what was written shows the cursor and leaves the alternate screen.
func (p *pty) restored(before unix.Termios) {
	p.t.Helper()
	p.see("\x1b[?1049l")
	require.Equal(p.t, before, p.settings())
	shown := p.shown()
	require.Greater(p.t, strings.LastIndex(shown, "\x1b[?25h"), strings.LastIndex(shown, "\x1b[?25l"))
	require.Greater(p.t, strings.LastIndex(shown, "\x1b[?1049l"), strings.LastIndex(shown, "\x1b[?1049h"))
}

// show shows one screen until it is ended, and returns a channel that is closed then.
func (p *pty) show(ctx context.Context) chan struct{} {
	p.t.Helper()
	s := openScreen(&console.Console{Out: p.tty, Err: io.Discard}, p.tty.Name())
	require.NotNil(p.t, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.run(ctx, func(ctx context.Context, _ *console.Console) error {
			d := newDeath()
			for id := range uint64(3) {
				d.fire(time.Millisecond, d.start, id+1, 0)
			}
			_ = s.take(d.snapshot())
			<-ctx.Done()
			return nil
		})
	}()
	p.see("3 open")
	return ended
}

// TestInput: whatever is typed or pasted, keys and signals end the screen, the terminal is restored, and the last screen
// stays on it.
func TestInput(t *testing.T) {
	for name, input := range map[string][]string{
		"nothing":               nil,
		"Latin-1":               {"\xe9", "\xff\x80\xc3\xe2\x82"},
		"a part of a character": {"\xc3", "\xa9"},
		"Alt-]":                 {"\x1b]", "a"},
		"Alt-_":                 {"\x1b_"},
		"a long text":           {strings.Repeat("p", 100_000)},
		"no text":               {strings.Repeat("p\xff\x00\xc3\x9b", 20_000)},
	} {
		for _, key := range []string{"q", "\x03", ""} {
			t.Run(fmt.Sprintf("%s and %q", name, key), func(t *testing.T) {
				p := openPty(t)
				before := p.settings()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := p.show(ctx)
				for _, part := range input {
					_, err := p.master.WriteString(part)
					require.NoError(t, err)
				}
				if key == "" {
					cancel()
				} else {
					_, err := p.master.WriteString(key)
					require.NoError(t, err)
				}
				select {
				case <-ended:
				case <-time.After(testenv.Patience):
					require.FailNow(t, "it does not end")
				}
				p.restored(before)
				p.see("LONGEST  OPERATION\r\n")
				_, left, _ := strings.Cut(p.shown(), "\x1b[?1049l")
				require.Contains(t, left, "3 open")
				require.NotContains(t, left, "q end")
			})
		}
	}
}

// TestInputAfterKey: the end does not wait for input that comes after the key.
func TestInputAfterKey(t *testing.T) {
	p := openPty(t)
	before := p.settings()
	ended := p.show(t.Context())
	go func() { _, _ = p.master.WriteString("ppq" + strings.Repeat("p", 100_000)) }()
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		require.FailNow(t, "it does not end")
	}
	p.restored(before)
}

// TestRestorer: the terminal is restored without tcell, too.
func TestRestorer(t *testing.T) {
	p := openPty(t)
	before := p.settings()
	restore, err := restorer(p.tty)
	require.NoError(t, err)
	p.show(t.Context())
	last := ""
	require.Eventually(t, func() bool { // the screen is whole, and nothing writes any more
		now := p.shown()
		whole := now == last
		last = now
		return whole
	}, testenv.Patience, 200*time.Millisecond)
	require.NotEqual(t, before, p.settings())
	restore()
	p.restored(before)
}

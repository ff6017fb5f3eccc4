//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a shell in a terminal of tmux.
type terminal struct {
	t      *testing.T
	socket string
}

// openTerminal opens a terminal of 80 columns.
func openTerminal(t *testing.T) *terminal {
	t.Helper()
	testenv.NeedsTool(t, "tmux", "tmux")
	testenv.NeedsRoot(t)
	term := &terminal{t, fmt.Sprintf("%s/tmux", t.TempDir())}
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=$ ", "bash", "--norc", "-i")
	t.Cleanup(term.close)
	term.see("$")
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	require.NoError(term.t, err, "tmux %q: %s", args, out)
	return string(out)
}

// close closes the terminal, which may be closed.
func (term *terminal) close() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() }

// keys presses keys. A text of several characters is typed.
func (term *terminal) keys(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

// see waits until the terminal shows a text, and returns the whole screen.
func (term *terminal) see(text string) (screen string) {
	term.t.Helper()
	seen := func() bool {
		screen = term.tmux("capture-pane", "-p")
		return strings.Contains(screen, text)
	}
	if !assert.Eventually(term.t, seen, testenv.Patience, 20*time.Millisecond) {
		require.FailNow(term.t, "the terminal never shows "+text, screen)
	}
	return screen
}

// settings returns how the terminal is set, apart from its size.
func (term *terminal) settings() string {
	term.t.Helper()
	file := term.socket + ".stty"
	_ = os.Remove(file)
	term.keys("clear; stty -a | tail -n +2 > "+file+".new; mv "+file+".new "+file, "Enter")
	var text []byte
	require.Eventually(term.t, func() (ok bool) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	}, testenv.Patience, 20*time.Millisecond)
	term.tmux("send-keys", "clear", "Enter")
	return string(text)
}

// TestTopScreen: keys sort, filter, pause and open a row; the screen follows the size of the terminal; and the terminal is
// restored by q, Ctrl-C, Ctrl-Z, signals, and the end of the process.
func TestTopScreen(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	p := startOperator(t)
	before := term.settings()
	top := fmt.Sprintf("%s top -p %s -i 200ms --by path", stapsdt(t), pid(p))
	start := func() {
		term.keys(top, "Enter")
		term.see("q end")
		allTraced(t, p, true)
	}
	restored := func(how string) {
		t.Helper()
		require.Equal(t, before, term.settings(), how)
	}
	signal := func(s unix.Signal) {
		t.Helper()
		out := tracetest.Must(exec.Command("pgrep", "-x", "-f", top).Output())(t)
		number := tracetest.Must(strconv.Atoi(strings.TrimSpace(string(out))))(t)
		require.NoError(t, unix.Kill(number, s))
	}
	start()
	tell(p, "open 2")
	tell(p, "requests 5")
	term.see(`path="/open/1"`)
	term.see("operator:query")
	screen := term.see("  2 open  of") // the requests have ended
	require.Contains(t, screen, "RATE/S  OPEN  ERR/S")
	require.Contains(t, screen, `path="/open/1"`)

	term.keys("/", "/open/1", "Enter")
	screen = term.see("filter /open/1")
	require.NotContains(t, screen, "operator:query")
	require.NotContains(t, screen, "/open/0")
	term.keys("Escape")
	term.see("operator:query")
	term.keys("s")
	term.see("sorted by open")
	term.keys("S")
	term.see("sorted by rate/s")
	term.keys("p")
	term.see("paused")
	tell(p, "open 1")
	time.Sleep(300 * time.Millisecond)
	require.Contains(t, term.see("paused"), "  2 open")
	term.keys("p")
	term.see("  3 open")

	term.keys("Tab", "Down", "Enter")
	screen = term.see("open for ")
	require.Contains(t, screen, `path="/open/1"`)
	require.Contains(t, screen, "process "+pid(p)+"  goroutine ")
	term.keys("Escape")
	term.see("sorted by")
	term.keys("Tab", "/", "query", "Enter") // the order of the rows changes with time
	term.see("filter query")
	term.keys("Enter")
	for screen = ""; !regexp.MustCompile(`count \d{2,}  average \d.* p999 \d`).MatchString(screen); { // of the last two seconds
		tell(p, "requests 5")
		screen = term.tmux("capture-pane", "-p")
	}
	term.keys("Escape")
	term.see("filter query")
	term.keys("Escape")
	term.see("operator:request")

	for _, size := range [][2]string{{"40", "12"}, {"20", "6"}, {"5", "2"}, {"200", "50"}, {"80", "24"}} {
		term.tmux("resize-window", "-x", size[0], "-y", size[1])
		require.Eventually(t, func() bool {
			screen = term.tmux("capture-pane", "-p")
			head, _, _ := strings.Cut(screen, "\n")
			return strings.HasPrefix("00:00:00", strings.Map(zeroes, head)[:min(len(head), 8)]) && len(head) > 0
		}, testenv.Patience, 20*time.Millisecond, "%v: the time is first", size)
	}
	term.see("q end")

	term.keys("C-z")
	term.see("Stopped")
	restored("Ctrl-Z")
	term.keys("fg", "Enter")
	term.see("q end")
	signal(unix.SIGTSTP)
	term.see("Stopped")
	restored("SIGTSTP")
	term.keys("fg", "Enter")
	term.see("q end")
	for _, end := range []string{"q", "C-c"} {
		term.keys(end)
		term.see("$")
		restored(end)
		start()
	}
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
		signal(s)
		term.see("$")
		restored(s.String())
		start()
	}
	signal(unix.SIGKILL) // which nothing can catch
	require.Contains(t, term.see("Killed"), "q end", "the screen stays")
	term.keys("reset && echo its' 'end", "Enter")
	require.NotContains(t, term.see("its end"), "q end")
	before = term.settings() // as reset makes them

	start()
	p.Hangup()
	term.see("$")
	restored("the end of the process")
}

// zeroes turns digits into zeroes.
func zeroes(r rune) rune {
	if r >= '0' && r <= '9' {
		return '0'
	}
	return r
}

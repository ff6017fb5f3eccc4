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
	"unicode"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// screenful is a line of top -o json.
type screenful struct {
	Seconds    float64
	Operations []struct {
		Operation    string
		By           map[string]any
		Count        int
		Rate, Errors float64
		Open         int
		Longest      int64
		P50, P99     *float64
	}
	Open    int
	Unknown int `json:"end_may_be_lost"`
	Longest []struct {
		Operation      string
		Nanoseconds    int64
		PID, TID       int
		Goroutine, Key uint64
		By, Args       map[string]any
	}
	Others, Full, Before, Lost uint64
}

// lastScreen returns the last screen.
func lastScreen(t *testing.T, r result) screenful {
	t.Helper()
	all := lines[screenful](t, r.stdout)
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// TestTop: every source shows the same operations, by name and by the values of --by, and those that are open.
func TestTop(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		s := lastScreen(t, source.run(t, func(p *tracetest.Process) {
			tell(p, "requests 20")
			tell(p, "open 3")
		}, "top", "-o", "json", "-i", "1h", "--by", "path,status")) // one screen, for all that happens
		counts := map[string]int{}
		for _, l := range s.Operations {
			counts[fmt.Sprint(l.Operation, l.By["path"], " ", l.By["status"])] = l.Count
			if l.Count > 0 && l.P50 == nil {
				require.Equal(t, "recording", source.name, "of which the last second is measured")
				continue
			}
			if l.Count > 0 {
				require.Greater(t, *l.P99, 1e6, "every operation takes a millisecond")
				require.GreaterOrEqual(t, *l.P99, *l.P50)
				require.Positive(t, l.Rate)
			} else {
				require.Nil(t, l.P50)
				require.Equal(t, 1, l.Open)
			}
			require.Equal(t, l.By["status"] == 500. || l.Operation == "operator:query", l.Errors > 0, l.Operation)
		}
		require.Equal(t, map[string]int{
			"operator:query<nil> <nil>": 40, "operator:request/0 200": 8, "operator:request/1 200": 8, "operator:request/0 500": 2, "operator:request/1 500": 2,
			"operator:request/open/0 <nil>": 0, "operator:request/open/1 <nil>": 0, "operator:request/open/2 <nil>": 0,
		}, counts)
		require.Equal(t, 3, s.Open)
		require.Len(t, s.Longest, 3)
		for i, o := range s.Longest {
			require.Equal(t, "/open/"+string(rune('0'+i)), o.By["path"], "the oldest is the first")
			require.NotZero(t, o.Key)
			require.NotZero(t, o.PID)
			require.NotZero(t, o.Goroutine)
		}
		require.Zero(t, s.Lost+s.Others+s.Full+s.Before)
	})
}

// TestTopText: what is for people has no control characters, whatever texts a program has, and is not cut for a pipe.
func TestTopText(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		r := source.run(t, func(p *tracetest.Process) {
			tell(p, "requests 5")
			tell(p, "hostile")
			tell(p, "open 12")
		}, "top", "-i", "1h", "--by", "path")
		require.Regexp(t, `(?m)^RATE/S  OPEN  ERR/S +P50 +P99  LONGEST  OPERATION +path$`, r.stdout)
		require.Regexp(t, `(?m)^ +\S+ +0 +0 +(.+ms|-)  +(.+ms|-) +-  operator:request  "/1"$`, r.stdout)
		require.Regexp(t, `(?m)^OPEN FOR +PID +GOROUTINE  OPERATION +ARGUMENTS$`, r.stdout)
		require.Regexp(t, `(?m)^ +\d+\S+ +\d+ +\d+  operator:request(?: \d+)?  path="/open/0"$`, r.stdout)
		require.Equal(t, source.name != "recording", strings.Contains(r.stdout, "and 2 more\n"), "of a recording, all are shown")
		require.Contains(t, r.stdout, `"/\x1b[2J`)
		for line := range strings.Lines(r.stdout) {
			line = strings.TrimSuffix(line, "\n")
			require.NotContains(t, line, "…")
			require.True(t, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) < 0, "%q", line)
		}
	})
}

// TestTopStorm: what comes too fast is counted as lost, or it is all there.
func TestTopStorm(t *testing.T) {
	const all, open = 50_000, 10_000
	eachSource(t, func(t *testing.T, source operated) {
		s := lastScreen(t, source.run(t, func(p *tracetest.Process) {
			tell(p, "open 10000")
			tell(p, "storm 50000")
		}, "top", "operator:request", "-o", "json"))
		require.Len(t, s.Operations, 1)
		t.Logf("%d ended, %d open, %d with an end that may be lost, %d events lost, %d without a start", s.Operations[0].Count, s.Open, s.Unknown, s.Lost, s.Before)
		if s.Lost == 0 {
			require.Equal(t, []int{all, open}, []int{s.Operations[0].Count, s.Open})
		}
		fired := uint64(2*all + open)
		seen := uint64(2*s.Operations[0].Count+s.Open+s.Unknown) + s.Before
		require.LessOrEqual(t, seen, fired)
		require.GreaterOrEqual(t, seen+s.Lost+s.Full, fired, "what is not shown is counted")
		require.Len(t, s.Longest, min(s.Open+s.Unknown, 1000))
	})
}

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
	screen := term.see("  2 open (since ") // the requests have ended
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
	tell(p, "hang 1")
	term.see(`path="/hang/0"`)
	term.keys("/", "/hang", "Enter")
	term.see("filter /hang")
	term.keys("Enter")
	screen = term.see("FAILED")
	require.Regexp(t, `(?m)100%  operator:request path="/hang/0"  not ended yet$`, screen)
	require.Regexp(t, `(?m)%    operator:query text="SELECT 3" error="panic"  FAILED$`, screen)
	term.keys("Escape")
	term.see("filter /hang")
	term.keys("Escape")
	term.see(`path="/open/0"`)
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
	term.keys("C-l") // no key
	term.tmux("send-keys", "-H", "e9", "ff")
	term.keys("s")
	term.see("sorted by open")
	p.Hangup()
	screen = term.see("stapsdt: process " + pid(p) + " has exited")
	require.Contains(t, screen, "RATE/S  OPEN  ERR/S", "the last screen stays")
	restored("the end of the process")
}

// zeroes turns digits into zeroes.
func zeroes(r rune) rune {
	if r >= '0' && r <= '9' {
		return '0'
	}
	return r
}

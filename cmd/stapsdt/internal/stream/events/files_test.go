package events

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// notes is a Consumer that notes what it is told, in lines.
type notes struct {
	lines []string
	take  func(*Event) error // or nil
	tick  func() (more bool)
}

func (n *notes) Know(p *recording.Probe) { n.lines = append(n.lines, "know "+p.Name) }
func (n *notes) Gone(f *replay.File)     { n.lines = append(n.lines, "gone "+filepath.Base(f.Path)) }
func (n *notes) Tick() (next time.Duration, more bool, err error) {
	n.lines = append(n.lines, "tick")
	return 0, n.tick == nil || n.tick(), nil
}

func (n *notes) Event(e *Event) error {
	n.lines = append(n.lines, filepath.Base(e.File.Path)+" "+eventtest.Text(e.Event))
	if n.take != nil {
		return n.take(e)
	}
	return nil
}

// written writes a recording of p:x with an event at each of some seconds.
func written(t *testing.T, path string, r eventtest.Recording, seconds ...int) {
	t.Helper()
	p := r.Probe("p", "x", "n")
	var fired []eventtest.Fired
	for _, s := range seconds {
		fired = append(fired, eventtest.Fired{Probe: p, At: time.Duration(s) * time.Second, Words: []uint64{uint64(s)}})
	}
	r.Chunk(0, 0, fired...)
	require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
}

// opened opens recordings, and returns what is said about them.
func opened(t *testing.T, config query.Config, from replay.From) (s *Stream, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	s, err := Open(&console.Console{Out: &bytes.Buffer{}, Err: said}, &config, Options{From: from})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, said
}

// TestMerge: the events of several recordings come in the order of the clock that relates them, and the consumer
// knows their probes before.
func TestMerge(t *testing.T) {
	boot := [16]byte{1}
	for _, c := range []struct {
		boots [2][16]byte
		said  bool
		want  string
	}{
		{[2][16]byte{boot, boot}, false, "know x, know x, a 1, b 2, a 3, b 4, a 5, tick"},
		{[2][16]byte{boot, {2}}, true, "know x, know x, b 2, b 4, a 1, a 3, a 5, tick"},
		{[2][16]byte{}, true, "know x, know x, b 2, b 4, a 1, a 3, a 5, tick"},
	} {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		written(t, a, eventtest.Recording{Head: recording.Head{Boot: c.boots[0]}, Realtime: time.Hour}, 1, 3, 5)
		written(t, b, eventtest.Recording{Head: recording.Head{Boot: c.boots[1]}}, 2, 4)
		s, said := opened(t, query.Config{}, replay.From{Paths: []string{a, b}})
		require.False(t, s.Live)
		n := &notes{}
		require.NoError(t, s.Run(t.Context(), n))
		require.Equal(t, c.want, strings.ReplaceAll(strings.Join(n.lines, ", "), "p:x n=", ""))
		require.Equal(t, c.said, strings.Contains(said.String(), "from different or unknown boots"))
	}
}

// TestEnough: a run ends without an error when its consumer has enough, and with another error of the consumer.
func TestEnough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	written(t, path, eventtest.Recording{}, 1, 2, 3)
	for _, err := range []error{replay.ErrEnough, errors.New("other")} {
		s, _ := opened(t, query.Config{Where: "n != 1"}, replay.From{Paths: []string{path}})
		n := &notes{take: func(*Event) error { return err }}
		got := s.Run(t.Context(), n)
		require.Equal(t, err != replay.ErrEnough, errors.Is(got, err))
		require.Equal(t, []string{"know x", "a p:x n=2"}, n.lines)
	}
}

// TestFollow: events that are written later are delivered, and those of another process that begins to record to the path, once each.
func TestFollow(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be replaced on Windows, where no program records")
	}
	dir := t.TempDir()
	path, next := filepath.Join(dir, "a"), filepath.Join(dir, "next")
	written(t, path, eventtest.Recording{}, 1)
	s, said := opened(t, query.Config{}, replay.From{Paths: []string{path}, Follow: true})
	n := &notes{}
	ticks := 0
	n.tick = func() bool {
		switch ticks++; ticks {
		case 1: // the same recording, with another event
			written(t, next, eventtest.Recording{}, 1, 2)
			b, err := os.ReadFile(next)
			require.NoError(t, err)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(b, 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		case 2:
			written(t, next, eventtest.Recording{}, 3)
			require.NoError(t, os.Rename(next, path))
		}
		return !strings.HasSuffix(strings.Join(n.lines, ""), "n=3tick")
	}
	require.NoError(t, s.Run(t.Context(), n))
	ended := fmt.Sprintf("stapsdt: the recording %s of process 7 has ended\n", path)
	require.Equal(t, ended+fmt.Sprintf("stapsdt: %s was replaced by a recording of process 7\n", path), said.String())
	got := strings.ReplaceAll(strings.Join(n.lines, " "), "tick ", "")
	require.Equal(t, "know x a p:x n=1 a p:x n=2 gone a know x a p:x n=3 tick", got)

	s, _ = opened(t, query.Config{Duration: time.Nanosecond}, replay.From{Paths: []string{path}, Follow: true})
	n = &notes{}
	require.NoError(t, s.Run(t.Context(), n))
	require.Equal(t, []string{"know x", "a p:x n=3", "tick"}, n.lines, "what was written before the end of the time")
}

// TestRefused: a flag that a source cannot honor is an error, and so is a command that needs what no probe has.
func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	written(t, path, eventtest.Recording{}, 1)
	file, page := replay.From{Paths: []string{path}}, replay.From{Address: "http://localhost:1"}
	unfit := errors.New("unfit")
	const reads, sends = "--from cannot be combined with", "an address cannot be combined with"
	for _, c := range []struct {
		from   replay.From
		config query.Config
		want   string
	}{
		{file, query.Config{Target: query.Target{PIDs: []int{1}}}, reads}, {file, query.Config{Target: query.Target{All: true}}, reads},
		{file, query.Config{Single: true}, reads}, {file, query.Config{Via: query.ViaSocket}, reads}, {file, query.Config{Budget: 0.1}, reads},
		{file, query.Config{Await: true}, reads}, {file, query.Config{Duration: 1}, reads},
		{replay.From{Paths: file.Paths, Follow: true}, query.Config{Duration: -1}, "the duration -1ns is negative"},
		{file, query.Config{Specs: querytest.Specs("/bin/app:p:x")}, "has a FILE"}, {file, query.Config{Where: "m == 1"}, "m"},
		{page, query.Config{Target: query.Target{All: true}}, sends}, {page, query.Config{Await: true}, sends},
		{replay.From{Address: page.Address, Paths: file.Paths}, query.Config{}, sends},
		{page, query.Config{Duration: -1}, "the duration -1ns is negative"},
		{page, query.Config{Specs: querytest.Specs("http://localhost:2")}, "give one address"},
		{page, query.Config{Specs: querytest.Specs("go:main.*")}, "shows only its own probes"},
		{replay.From{Address: "http:///"}, query.Config{}, "has no host"},
	} {
		_, err := Open(&console.Console{}, &c.config, Options{From: c.from})
		require.ErrorIs(t, err, query.ErrUsage, "%v", c)
		require.ErrorContains(t, err, c.want)
	}
	_, err := Open(&console.Console{}, &query.Config{}, Options{From: file, Show: &Show{Verbose: true}})
	require.ErrorIs(t, err, query.ErrUsage)
	_, err = Open(&console.Console{}, &query.Config{Specs: querytest.Specs("p:y")}, Options{From: file})
	require.ErrorIs(t, err, query.ErrNothing)
	_, err = Open(&console.Console{}, &query.Config{}, Options{From: file, Needs: replay.Needs{All: func([]*recording.Probe) error { return unfit }}})
	require.Equal(t, unfit, err)
}

// eager is a Taker that ends the run at the first tick after it has taken events.
type eager struct {
	notes
	taken int
}

func (e *eager) Taker(*recording.Probe) func(*recording.Event) {
	return func(*recording.Event) { e.taken++ }
}

func (e *eager) Tick() (next time.Duration, more bool, err error) { return 0, e.taken == 0, nil }

// TestTicks: a Taker that follows a long recording ticks before it has taken all of its events.
func TestTicks(t *testing.T) {
	const chunks = 10
	for follow, want := range map[bool]int{true: 2, false: 2 * chunks} {
		var r eventtest.Recording
		p := r.Probe("p", "x", "n")
		for i := range chunks {
			fired := eventtest.Fired{Probe: p, At: time.Duration(i) * time.Second, Words: []uint64{1}}
			r.Chunk(0, uint64(2*i), fired, fired)
		}
		path := filepath.Join(t.TempDir(), "a")
		require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
		s, _ := opened(t, query.Config{}, replay.From{Paths: []string{path}, Follow: follow})
		e := &eager{}
		require.NoError(t, s.Source.Run(t.Context(), e))
		require.Equal(t, want, e.taken, "follow: %v", follow)
	}
}

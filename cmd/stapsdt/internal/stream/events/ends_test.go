package events

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/stretchr/testify/require"
)

// operations writes a recording of p:op: one from 1 s to 11 s, another from 12 s to 13 s, the end of a third at 14 s, and p:tick at 15 s.
func operations(t *testing.T) (path string) {
	t.Helper()
	var r eventtest.Recording
	end, start, tick := r.Probe("p", "op__end", "id", "status"), r.Probe("p", "op__start", "id", "tenant"), r.Probe("p", "tick", "tenant")
	fired := func(p *recording.Probe, seconds int, words ...uint64) eventtest.Fired {
		return eventtest.Fired{Probe: p, At: time.Duration(seconds) * time.Second, Words: words}
	}
	r.Chunk(0, 0, fired(start, 1, 1, 40), fired(start, 12, 2, 50), fired(tick, 15, 40))
	r.Chunk(1, 0, fired(end, 11, 1, 200), fired(end, 13, 2, 404), fired(end, 14, 3, 200)) // on another thread
	path = filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
	return path
}

// asked opens a source for a command that may use values of starts.
func asked(t *testing.T, config query.Config, from replay.From, exprs ...string) (s *Stream, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	s, err := Open(&console.Console{Out: said, Err: said}, &config, Options{From: from, Needs: replay.Needs{Starts: true, Exprs: exprs}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, said
}

// TestEndsOfFiles: the ends of recordings have the values of their starts. These are not delivered, unless they are selected, and count
// from before the window. Ends before the window are not missed.
func TestEndsOfFiles(t *testing.T) {
	const stray = "stapsdt: not included: 1 operation that began earlier, or whose start was lost\n"
	path := operations(t)
	for _, c := range []struct {
		specs, where string
		exprs        []string
		from         replay.From
		want, said   string
	}{
		{"p:op__end", "elapsed > 5s", nil, replay.From{}, "p:op__end id=1 status=200 elapsed=10000000000", stray},
		{"p:op__end", "elapsed > 0s", []string{"tenant"}, replay.From{}, "p:op__end id=1 status=200 elapsed=10000000000 tenant=40, p:op__end id=2 status=404 elapsed=1000000000 tenant=50", stray},
		{"p:op__end", "start.id == 2", []string{"elapsed"}, replay.From{}, "p:op__end id=2 status=404 elapsed=1000000000 start.id=2", stray},
		{"p:op__end", "elapsed > 0s", nil, replay.From{Since: "4s"}, "p:op__end id=1 status=200 elapsed=10000000000, p:op__end id=2 status=404 elapsed=1000000000", stray},
		{"p:op__end", "elapsed > 0s", nil, replay.From{Since: "0s"}, "", ""},
		{"p:op__end", "elapsed > 0s", nil, replay.From{Until: "3s"}, "p:op__end id=1 status=200 elapsed=10000000000", ""},
		{"p:*", "tenant == 40", nil, replay.From{}, "p:op__start id=1 tenant=40, p:tick tenant=40", "stapsdt: 1 of 3 probes has no tenant and is left out\n"},
		{"p:*", "elapsed > 0s", nil, replay.From{Until: "1s"}, "p:op__end id=1 status=200 elapsed=10000000000, p:op__end id=2 status=404 elapsed=1000000000", "stapsdt: 2 of 3 probes have no elapsed and are left out\n" + stray},
		{"p:op__end", "status == 404", nil, replay.From{}, "p:op__end id=2 status=404", ""},
	} {
		c.from.Paths = []string{path}
		s, said := asked(t, query.Config{Specs: querytest.Specs(c.specs), Where: c.where}, c.from, c.exprs...)
		n := &notes{}
		require.NoError(t, s.Run(t.Context(), n))
		require.NoError(t, s.Report("", 0))
		var got []string
		for _, line := range n.lines {
			if event, ok := strings.CutPrefix(line, "a "); ok {
				got = append(got, event)
			}
		}
		require.Equal(t, c.want, strings.Join(got, ", "), "%v", c)
		require.Equal(t, c.said, said.String(), "%v", c)
	}
	_, err := Open(&console.Console{}, &query.Config{Specs: querytest.Specs("p:tick"), Where: "elapsed > 1s"}, Options{From: replay.From{Paths: []string{path}}, Needs: replay.Needs{Starts: true}})
	require.ErrorIs(t, err, query.ErrUsage)
	require.ErrorContains(t, err, "only the end of an operation has it")
	_, err = Open(&console.Console{}, &query.Config{Where: "elapsed > 1s"}, Options{From: replay.From{Paths: []string{path}}})
	require.ErrorContains(t, err, "undefined: elapsed; there is no start of p:op beside this end", "a command that does not ask for it")
}

// TestEndsInOrder: a Taker takes events in any order only if none of them is paired.
func TestEndsInOrder(t *testing.T) {
	path := operations(t)
	for where, taken := range map[string]int{"status >= 0": 3, "elapsed >= 0s": 0} {
		s, _ := asked(t, query.Config{Specs: querytest.Specs("p:op__end"), Where: where}, replay.From{Paths: []string{path}})
		e := &eager{}
		require.NoError(t, s.Run(t.Context(), e))
		require.Equal(t, taken, e.taken, where)
		require.Equal(t, where != "status >= 0", slices.Contains(e.lines, "a p:op__end id=1 status=200 elapsed=10000000000"))
	}
}

// recorded returns a writer to memory, and a function that adds a probe of p with arguments of type uint64.
func recorded(t *testing.T) (w *recorder.Writer, memory []byte, add func(name string, args ...string) uint32) {
	memory = make([]byte, recorder.Size(4))
	w = recorder.New(memory, 4, recorder.Options{Head: recording.Head{PID: 7}, Foreign: true})
	return w, memory, func(name string, args ...string) uint32 {
		number, ok := w.AddProbe(described(name, args...))
		require.True(t, ok)
		return number
	}
}

// described returns a probe of p.
func described(name string, args ...string) *recording.Probe {
	p := &recording.Probe{Provider: "p", Name: name}
	for _, arg := range args {
		p.Args = append(p.Args, recording.Arg{Name: arg, Kind: kind.Uint64, Type: 8})
	}
	return p
}

// TestEndsAppear: a program adds the probes of an operation one after the other. It has announced them, or has not. A Taker gives way when
// the first is paired.
func TestEndsAppear(t *testing.T) {
	for _, announced := range []bool{false, true} {
		w, memory, add := recorded(t)
		needs := &replay.Needs{Starts: true}
		r, err := replay.New(querytest.Specs("p:*__end"), "elapsed > 0s", needs.Unfit)
		require.NoError(t, err)
		r.Pairing = paired.Of(needs, "elapsed > 0s")
		r.Taker = func(*recording.Probe) func(*recording.Event) {
			return func(*recording.Event) { t.Error("it was taken") }
		}
		process := &replay.Process{PID: 7}
		if announced {
			process.Probes = []*recording.Probe{described("op__end", "id"), described("op__start", "id")}
		}
		f, err := r.Add(bytes.NewReader(memory), process, func() {})
		require.NoError(t, err)
		var got []string
		d := &Delivery{Ends: paired.New(r), Consumer: &notes{take: func(e *Event) error {
			got = append(got, eventtest.Text(e.Event))
			return nil
		}}}
		read := func() {
			_, err := r.More()
			require.NoError(t, err)
			_, err = r.Each(context.Background(), d.Event)
			require.NoError(t, err)
		}
		end := add("op__end", "id")
		w.AppendForeign(end, 1000, 7, 8, []uint64{1}, nil)
		read()
		start := add("op__start", "id")
		w.AppendForeign(start, 2000, 7, 8, []uint64{2}, nil)
		w.AppendForeign(end, 2500, 7, 8, []uint64{2}, nil)
		read()
		require.Equal(t, []string{"p:op__end id=2 elapsed=500"}, got)
		require.True(t, r.Pairs())
		require.Contains(t, f.Recorded(), r.Paired(f.Probes()[end]).Probe)
		var said bytes.Buffer
		d.Ends.Report(&console.Console{Out: &said, Err: &said})
		require.Equal(t, announced, strings.Contains(said.String(), "not included: 1 operation that began earlier"))
		r.Remove(f)
		require.False(t, r.Pairs())
	}
}

// TestEndsOfPage: a program at an address also sends the starts, without a condition if it is about values of these.
func TestEndsOfPage(t *testing.T) {
	now := time.Now().Add(-time.Minute)
	send := func(after time.Duration, probe, args string) string { return sent(now.Add(after), probe, args) }
	stream := send(0, "op__start", `"id":1,"tenant":"x"`) + send(2*time.Second, "op__end", `"id":1`) + send(time.Second, "op__start", `"id":2,"tenant":"y"`) + send(5*time.Second, "op__end", `"id":2`)
	var filter string
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/probes/probes.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"pid":7,"program":"shop","max_viewers":8,"providers":[{"name":"a","probes":[
			{"name":"op__start","args":[{"name":"id","type":"uint64"},{"name":"tenant","type":"string"}]},{"name":"op__end","args":[{"name":"id","type":"uint64"}]},{"name":"tick"}]}]}`))
	})
	mux.HandleFunc("/debug/probes/events", func(w http.ResponseWriter, r *http.Request) {
		filter = r.URL.Query().Get("filter")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(":\n\n" + stream))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, c := range []struct{ where, show, filter, want string }{
		{"elapsed > 3s && tenant == \"y\"", "1", `provider == "a" && probe == "op__start" || provider == "a" && probe == "op__end"`, "a:op__end id=2 elapsed=4000000000 tenant=y"},
		{"id == 1", "elapsed", `provider == "a" && probe == "op__start" || provider == "a" && probe == "op__end"`, "a:op__end id=1 elapsed=2000000000"},
		{"id == 1", "1", "id == 1", "a:op__end id=1, a:op__end id=2"}, // this program sends all
	} {
		s, _ := asked(t, query.Config{Specs: querytest.Specs("a:op__end"), Where: c.where}, replay.From{Address: server.URL}, c.show)
		require.Len(t, s.Probes(), 1)
		var got []string
		require.NoError(t, s.Run(t.Context(), &notes{take: func(e *Event) error {
			got = append(got, eventtest.Text(e.Event))
			return nil
		}}))
		require.Equal(t, c.want, strings.Join(got, ", "))
		require.Equal(t, c.filter, filter)
	}
}

// TestEndsOfReplicas: pods are asked for the starts and for all ends if an expression names what only a start gives. A pod can have
// processes with the same IDs.
func TestEndsOfReplicas(t *testing.T) {
	for where, want := range map[string]string{"elapsed > 1s": "[shop:op__end shop:op__start]", "status > 1": "[shop:op__end]"} {
		pod := newFakePod(t, "a", 1<<20)
		number := map[string]uint32{}
		for _, name := range []string{"op__start", "op__end"} {
			p := described(name, "id", "status")
			p.Provider = "shop"
			number[name], _ = pod.AddProbe(p)
		}
		fire := func(name string, ago time.Duration, pid uint32, status uint64) {
			pod.AppendForeign(number[name], pod.Now()-uint64(ago), pid, pid, []uint64{9, status}, nil)
		}
		fire("op__start", 10*time.Second, 1, 0)
		fire("op__start", 5*time.Second, 2, 0)
		fire("op__end", 4500*time.Millisecond, 2, 3)
		fire("op__end", 4*time.Second, 1, 1)
		pods := &fakePods{updates: make(chan replay.Update), stopped: make(chan struct{}), first: []replay.Update{pod.frame()}}
		s, said := asked(t, query.Config{Specs: querytest.Specs("shop:op__end"), Where: where}, replay.From{Replicas: pods})
		require.Equal(t, want, "["+spec.Join(pods.config.Specs, " ")+"]")
		require.Equal(t, strings.Contains(want, "start"), pods.config.Where == "")
		var got []string
		ran := make(chan error)
		go func() {
			ran <- s.Run(t.Context(), &notes{take: func(e *Event) error {
				got = append(got, fmt.Sprint(e.PID, " ", e.Word(1)))
				return nil
			}})
		}()
		pods.send(pod.rest()...)
		close(pods.updates)
		require.NoError(t, <-ran)
		require.NoError(t, s.Report("", 0))
		if where == "status > 1" { // this pod does not evaluate it
			require.Equal(t, []string{"2 3", "1 1"}, got)
		} else {
			require.Equal(t, []string{"1 1"}, got)
		}
		require.NotContains(t, said.String(), "not included")
	}
}

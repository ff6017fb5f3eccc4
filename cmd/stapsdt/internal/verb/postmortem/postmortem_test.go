package postmortem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

const realtime = 1_700_000_000 * time.Second

// run shows a recording, and returns the screen, what is said, and the object.
func run(t *testing.T, content []byte, container string) (screen, said string, j *JSONReport, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.rec")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	var out, warnings bytes.Buffer
	to := &console.Console{Out: &out, Err: &warnings}
	err = Run(t.Context(), to, Options{From: replay.From{Paths: []string{path}}, Container: container})
	screen = strings.ReplaceAll(out.String(), path, "FILE")
	out.Reset()
	to.Err = io.Discard
	_ = Run(t.Context(), to, Options{From: replay.From{Paths: []string{path}}, Container: container, Format: query.JSON})
	j = &JSONReport{}
	if out.Len() > 0 {
		// The trees have what cannot be decoded to their types.
		require.NoError(t, json.Unmarshal(out.Bytes(), &struct {
			*JSONReport
			Trees   []any `json:"trees"`
			Longest []any `json:"longest"`
			Errors  []any `json:"errors"`
			Trails  []any `json:"trails"`
			Recent  []any `json:"recent"`
		}{JSONReport: j}))
	}
	t.Log(screen, warnings.String())
	return screen, strings.ReplaceAll(warnings.String(), path, "FILE"), j, err
}

// shop is a recording of three minutes: two requests a second, each with a query, of which every tenth fails, then one a
// second. Request 1000 and its second query are open at the end, and what its goroutine fires last is an event without an
// operation.
func shop() *eventtest.Recording {
	r := &eventtest.Recording{Realtime: realtime}
	start, end := r.Probe("shop", "request__start", "id", "parent", "path:text"), r.Probe("shop", "request__end", "id", "error:text")
	ask, asked := r.Probe("shop", "query__start", "id", "parent", "text"), r.Probe("shop", "query__end", "id", "rows", "error:text")
	wait := r.Probe("shop", "wait", "ms")
	var all []eventtest.Fired
	fire := func(p *recording.Probe, at time.Duration, texts []string, words ...uint64) {
		all = append(all, eventtest.Fired{Probe: p, At: at, Words: words, Texts: texts})
	}
	request := func(at time.Duration, id uint64, failure string) {
		fire(start, at, []string{"/items"}, id, 0)
		fire(ask, at+time.Millisecond, []string{"SELECT"}, id+1, id)
		fire(asked, at+2*time.Millisecond, []string{failure}, id+1, 7)
		fire(end, at+3*time.Millisecond, []string{""}, id)
	}
	id := uint64(1)
	for s := range 180 {
		each := 2
		if s >= 120 {
			each = 1
		}
		for i := range each {
			failure := ""
			if (id/2)%10 == 9 {
				failure = fmt.Sprintf("refused %d", id)
			}
			request(time.Duration(s)*time.Second+time.Duration(i)*500*time.Millisecond, id, failure)
			id += 2
		}
	}
	now := 180*time.Second - 10*time.Millisecond
	fire(start, now, []string{"/report"}, 1000, 0)
	fire(ask, now+time.Millisecond, []string{"SELECT 1"}, 1001, 1000)
	fire(asked, now+2*time.Millisecond, []string{""}, 1001, 1)
	fire(ask, now+3*time.Millisecond, []string{"SELECT 2"}, 1002, 1000)
	fire(wait, now+10*time.Millisecond, nil, 33)
	for before := 0; before < len(all); before += 300 {
		r.Chunk(0, uint64(before), all[before:min(before+300, len(all))]...)
	}
	return r
}

// TestScreen: the screen and the object have what the recording tells, and no more than fits a screen.
func TestScreen(t *testing.T) {
	screen, said, j, err := run(t, shop().Bytes(), "")
	require.NoError(t, err)
	require.Empty(t, said)
	require.LessOrEqual(t, strings.Count(screen, "\n"), 40)
	require.Contains(t, screen, "FILE: process 7, /bin/app\n1205 events from ")
	require.Contains(t, screen, "\nnot closed: the process was killed, crashed, or ended without Close\n")
	require.Regexp(t, `(?m)^OPEN FOR  GOROUTINE  2 OPEN +ARGUMENTS
    10ms          5  shop:request 1000 +path="/report"
     7ms          5    shop:query 1002 +text="SELECT 2"
$`, screen)
	require.Regexp(t, `(?m)^ +TIME +OWN  PART  OPERATION
 +>10ms +2ms  100%  shop:request path="/report"  not ended yet
 +1ms +1ms +10%    shop:query text="SELECT 1" rows=1
 +>7ms +7ms +70%    shop:query text="SELECT 2"  not ended yet
$`, screen)
	require.Regexp(t, `(?m)^ERROR AT +30 FAILED +ARGUMENTS
\S+\.002000  shop:query 600  error="refused 599" text="SELECT" rows=7
\S+\.002000  shop:query 580  error="refused 579" .*
\S+\.002000  shop:query 560  error="refused 559" .*
and 27 more: stapsdt tree --from FILE --errors
$`, screen)
	// One a second in the last minute, of 60 queries six failed, and one of the open request ended; two a second before.
	require.Regexp(t, `(?m)^LAST 1m0s +2m0s BEFORE
 +RATE/S +P99 +FAILED +RATE/S +P99 +FAILED +OPERATION
 +1\.0 +\S+ +6 +2\.0 +\S+ +24 +shop:query
 +1\.0 +\S+ +0 +2\.0 +\S+ +0 +shop:request
 +0\.017 +- +0 +0 +- +0 +shop:wait
$`, screen)
	require.Regexp(t, `(?m)^LAST EVENTS +GOROUTINE  PROBE +ARGUMENTS
.* 5          shop:query__end    id=1001 rows=1 error=""
.* 5          shop:query__start  id=1002 parent=1000 text="SELECT 2"
.* 5          shop:wait          ms=33
$`, screen)
	require.True(t, strings.HasSuffix(screen, "\n\nstapsdt top --from FILE\nstapsdt tree --from FILE --errors\nstapsdt trace --from FILE --since 1s\n"))

	require.Equal(t, "ended", j.State)
	require.Equal(t, []any{uint64(1205), 2, 0, uint64(30)}, []any{j.Events, j.Open, j.Unknown, j.Failed})
	require.Equal(t, time.Unix(1_700_000_000, 0).Add(180*time.Second).UTC(), *j.Last)
	require.InDelta(t, 60, j.Rates.Seconds, 1e-9)
	require.InDelta(t, 120, j.Rates.BeforeSeconds, 1e-9)
	row := j.Rates.Rows[0]
	require.Equal(t, "shop:query", row.Name)
	require.Equal(t, []uint64{61, 6, 240, 24}, []uint64{row.Last.Count, row.Last.Errors, row.Before.Count, row.Before.Errors})
	require.InDelta(t, 61.0/60, row.Last.Rate, 1e-9)
	require.InDelta(t, 1e6, float64(*row.Before.P99), 0.2e6)
}

// TestStates: a recording that was closed, one without events, and one without operations.
func TestStates(t *testing.T) {
	r := shop()
	r.Head.Ended = true
	screen, _, j, err := run(t, r.Bytes(), "")
	require.NoError(t, err)
	require.Contains(t, screen, "\nclosed by the process after the last event: an orderly exit, or a panic that ran Close\n")
	require.Contains(t, screen, "  2 OPEN  ")
	require.Equal(t, "closed", j.State)

	r = &eventtest.Recording{Realtime: realtime}
	r.Probe("p", "op__start", "id")
	r.Chunk(0, 0)
	screen, _, j, err = run(t, r.Bytes(), "")
	require.NoError(t, err)
	require.Contains(t, screen, "\nno event since ")
	require.Equal(t, 3, strings.Count(screen, "\n"))
	require.Nil(t, j.Last)

	r = &eventtest.Recording{Realtime: realtime}
	tick := r.Probe("p", "tick", "n", "error")
	for i := range uint64(8) {
		r.Chunk(0, i, eventtest.Fired{Probe: tick, At: time.Duration(i) * time.Second, Words: []uint64{i, i / 7}})
	}
	screen, _, j, err = run(t, r.Bytes(), "")
	require.NoError(t, err)
	require.NotContains(t, screen, "OPEN")
	require.Regexp(t, `(?m)^ERROR AT +1 FAILED +ARGUMENTS\n\S+  p:tick    error=1 n=7$`, screen)
	require.Regexp(t, `(?m)^ +1\.1 +- +1 +1\.1 +- +0 +p:tick$`, screen, "four of the eight in each half of seven seconds")
	require.Regexp(t, `(?m)^LAST EVENTS +GOROUTINE +PROBE +ARGUMENTS\n.*n=5 error=0\n.*n=6 error=0\n.*n=7 error=1\n$`, screen)
	require.Contains(t, screen, "\nstapsdt count --from FILE '*:*'\n")
	require.Len(t, j.Recent, 0, "decoded elsewhere")
}

// TestManyOpen: more operations than a screen or a table has room for are counted.
func TestManyOpen(t *testing.T) {
	r := &eventtest.Recording{Realtime: realtime}
	start := r.Probe("p", "op__start", "id", "parent")
	r.Probe("p", "op__end", "id")
	const all, perChunk = 100_000, 1500
	for at := uint64(0); at < all; at += perChunk {
		var some []eventtest.Fired
		for id := at; id < min(at+perChunk, all); id++ {
			some = append(some, eventtest.Fired{Probe: start, At: time.Duration(id), Words: []uint64{id + 1, 0}})
		}
		r.Chunk(0, at, some...)
	}
	screen, _, j, err := run(t, r.Bytes(), "")
	require.NoError(t, err)
	require.Equal(t, []any{query.MaxOpen, uint64(all - query.MaxOpen)}, []any{j.Open, j.Full})
	require.Contains(t, screen, "  65536 OPEN")
	require.Contains(t, screen, "\nand 65531 more: stapsdt top --from FILE\n")
	require.Contains(t, screen, "34464 more had no room")
	require.Less(t, strings.Count(screen, "\n"), 25)
}

// TestDamaged: what precedes the damage is shown, and the damage is reported.
func TestDamaged(t *testing.T) {
	whole := shop().Bytes()
	screen, said, _, err := run(t, whole[:len(whole)-recording.ChunkBytes], "")
	require.NoError(t, err)
	require.Contains(t, said, "stapsdt: FILE has 266496 of the recording's 332032 bytes")
	require.Contains(t, screen, "1200 events from ")
	require.NotContains(t, screen, " 2 OPEN ")

	broken := bytes.Clone(whole)
	at := len(broken) - 2*recording.ChunkBytes + recording.ChunkHeadBytes + 1000&^7
	for i := range 64 {
		broken[at+i] = 0xff
	}
	screen, _, _, err = run(t, broken, "")
	require.ErrorIs(t, err, recording.ErrCorrupt)
	require.Contains(t, screen, " events from ")

	_, _, _, err = run(t, whole[:100], "")
	require.ErrorIs(t, err, recording.ErrCorrupt)
}

// TestOpened: a recording that is open already, because its path is one of another container, is read.
func TestOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.rec")
	require.NoError(t, os.WriteFile(path, shop().Bytes(), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	replay.SetFile(f)
	require.NoError(t, os.Remove(path))
	var out bytes.Buffer
	err = Run(t.Context(), &console.Console{Out: &out, Err: &out}, Options{From: replay.From{Paths: []string{path}}})
	require.NoError(t, err)
	require.Contains(t, out.String(), " 2 OPEN ")
	require.ErrorIs(t, f.Close(), os.ErrClosed)
}

// TestContainer: what Kubernetes tells about the life of the recording is shown, and its commands are those of the plugin. What
// hung at the end was open until then.
func TestContainer(t *testing.T) {
	status := func(started, finished time.Duration) string {
		at := func(d time.Duration) string { return time.Unix(0, int64(realtime+d)).UTC().Format(time.RFC3339) }
		b, err := json.Marshal(ending.Container{
			Pod: "shop/web-0/app", Reason: "OOMKilled", ExitCode: 137, StartedAt: at(started), FinishedAt: at(finished),
		})
		require.NoError(t, err)
		return string(b)
	}
	screen, _, j, err := run(t, shop().Bytes(), status(-time.Second, 190*time.Second))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^kubernetes: the container ended with status 137 \(OOMKilled\) at \S+, 10s after the last event$`, screen)
	require.Regexp(t, `(?m)^ +10s +5  shop:request 1000`, screen)
	require.Contains(t, screen, "\nkubectl stapsdt top shop/web-0/app --from FILE\n")
	require.Equal(t, "OOMKilled", j.Endings[0].Reason)
	for _, other := range []string{status(-time.Minute, 100*time.Second), status(time.Minute, 300*time.Second), `{"pod":"shop/web-0/app"}`} {
		screen, _, _, err = run(t, shop().Bytes(), other)
		require.NoError(t, err)
		require.NotContains(t, screen, "OOMKilled", "it was another life")
	}
	_, _, _, err = run(t, shop().Bytes(), "{")
	require.ErrorIs(t, err, query.ErrUsage)
}

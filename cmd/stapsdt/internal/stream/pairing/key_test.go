package pairing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// texts returns an event whose first arguments are texts.
func texts(at time.Duration, p *recording.Probe, first, second string, port uint64) *recording.Event {
	e := eventtest.Event(at, p)
	e.SetText(0, []byte(first))
	e.SetText(1, []byte(second))
	e.Set(2, port)
	return e
}

// TestKeyParts: only what has all parts in common is paired, and no part passes for a piece of another one.
func TestKeyParts(t *testing.T) {
	var r eventtest.Recording
	start, end := r.Probe("p", "link__start", "text1", "text2", "port"), r.Probe("p", "link__end", "text1", "text2", "port")
	asked := query.Pairing{Key: []string{"text1", "text2", "port"}, Details: true}
	p, err := NewPairs(Plan{Pairing: asked}, []Side{{start, 0, true}, {end, 0, false}})
	require.NoError(t, err)
	f := replay.NewFile(&replay.Process{})
	word := strings.Repeat("\x00", 8) // as between two texts
	links := [][]any{
		{"a", "bc", 1}, {"ab", "c", 1}, {"", "abc", 1}, {"abc", "", 1}, {"a", "bc", 2}, {"a", "bc\x00", 1}, {"a\x00b", "c", 1},
		{"a" + word + "b", "c", 1}, {"a", "b" + word + "c", 1}, {"a", "bc", 1 << 32},
	}
	event := func(i int, p *recording.Probe) *recording.Event {
		return texts(time.Duration(i), p, links[i][0].(string), links[i][1].(string), uint64(links[i][2].(int)))
	}
	for i := range links {
		require.Nil(t, p.Add(event(i, start), f).Replaced, "%q", links[i])
	}
	for i := range links {
		ended := p.Add(event(i, end), f)
		require.True(t, ended.HasEnded, "%q", links[i])
		require.EqualValues(t, i, ended.Ended.Start.Since, "%q", links[i])
	}
	require.Equal(t, query.Totals{Starts: uint64(len(links)), Pairs: uint64(len(links))}, p.Totals(0))

	o := p.Add(texts(1, start, "x", "y\"", 7), f).Started
	object, _ := json.Marshal(o.JSON())
	require.JSONEq(t, `{"nanoseconds":0,"pid":1,"goroutine":1,"key":["x","y\"",7],"by":{},"args":{}}`, string(object))
	require.Equal(t, []any{`"x", "y\"", 7`, "text1, text2, port", uint64(0)}, []any{o.Key.ForText(), o.Columns.Key, o.Key.ID()})
	for unreadable := range 3 {
		e := texts(2, end, "x", "y\"", 7)
		e.Unreadable = 1 << unreadable
		require.Equal(t, Outcome{}, p.Add(e, f), "a part that is missing pairs nothing")
	}
	require.EqualValues(t, 3, p.Unevaluated)
	long := strings.Repeat("a", value.TextSize)
	require.Equal(t, Outcome{}, p.Add(texts(3, start, long, "c", 7), f), "a text that is cut has the key of others")
	require.NotNil(t, p.Add(texts(3, start, long[1:], "c", 7), f).Started)
	require.EqualValues(t, 4, p.Unevaluated)
}

// TestFirers: goroutines and threads can be parts of a key. An event for which one is not known is counted.
func TestFirers(t *testing.T) {
	start, end, all := sides(0)
	p, err := NewPairs(Plan{Pairing: query.Pairing{Key: []string{query.Goroutine, "id", query.Thread}}}, all)
	require.NoError(t, err)
	event := func(probe *recording.Probe, goroutine uint64, tid uint32, id uint64) *recording.Event {
		e := eventtest.Event(1, probe, id, 0, 0)
		e.Goroutine, e.TID = goroutine, tid
		return e
	}
	p.Add(event(start, 1, 2, 3), nil)
	for _, other := range [][3]uint64{{2, 2, 3}, {1, 1, 3}, {1, 2, 2}, {0, 2, 3}, {1, 0, 3}} {
		require.False(t, p.Add(event(end, other[0], uint32(other[1]), other[2]), nil).HasEnded)
	}
	require.True(t, p.Add(event(end, 1, 2, 3), nil).HasEnded)
	var said bytes.Buffer
	WarnUnknown(&console.Console{Err: &said}, p.Unknown, []string{query.Goroutine, "id", query.Thread})
	require.Equal(t, "stapsdt: 2 events are not included, because it is unknown which goroutine or thread has fired them\n", said.String())
}

// TestWrongKey: both sides need each part, of types that can be equal.
func TestWrongKey(t *testing.T) {
	var r eventtest.Recording
	start, end := r.Probe("p", "op__start", "id", "text", "a"), r.Probe("p", "op__end", "id", "other", "text")
	for key, want := range map[string]string{
		"a": "p:op__end: undefined: a", "other": "p:op__start: undefined: other", "arg1": "p:op__end: the key arg1 is a uint64 here, but a string at another probe",
	} {
		_, err := NewPairs(Plan{Pairing: query.Pairing{Key: []string{"id", key}}}, []Side{{start, 0, true}, {end, 0, false}})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, (&Operations{Key: []string{"id", key}}).Check([]*recording.Probe{start, end}), want)
	}
}

// TestOperationsKey: a key pairs the operations that have it. Spans have another one, and are left out as others that lack a part.
func TestOperationsKey(t *testing.T) {
	var r eventtest.Recording
	link, unlink := r.Probe("p", "link__start", "text1", "text2", "port", "text3"), r.Probe("p", "link__end", "text1", "text2", "port")
	spanStart, spanEnd := r.Probe("p", "span__start", "id", "parent", "port"), r.Probe("p", "span__end", "id", "port")
	bare, bareEnd := r.Probe("p", "bare__start"), r.Probe("p", "bare__end")
	spans := []*recording.Probe{spanStart, spanEnd}
	o := Operations{Key: []string{"text1", "arg1", "port"}}
	require.ErrorContains(t, o.Check(spans), "p:span is a span, which has an ID: leave out --key, or give SPECs of other operations")
	require.ErrorIs(t, (&Operations{Key: []string{"port"}}).Check(spans), query.ErrUsage)
	require.NoError(t, (&Operations{Key: []string{query.Goroutine}}).Check([]*recording.Probe{bare, bareEnd}), "they need no argument")

	o = Operations{Key: o.Key}
	require.NoError(t, o.Check(append(spans, link, unlink)))
	f := replay.NewFile(&replay.Process{})
	add := func(p *recording.Probe, first, second string) Outcome {
		e := eventtest.Event(1, p)
		e.SetText(0, []byte(first))
		e.SetText(1, []byte(second))
		e.Set(2, 5)
		if p == link {
			e.SetText(3, []byte("more"))
		}
		return o.Add(e, f)
	}
	add(link, "a", "bc")
	started := add(link, "ab", "c").Started
	require.Equal(t, []any{"[text3]", "text1, arg1, port"}, []any{fmt.Sprint(started.Columns.Names), started.Columns.Key})
	require.Same(t, started, add(unlink, "ab", "c").Ended.Start)
	require.False(t, add(unlink, "ab", "bc").HasEnded)
	require.Equal(t, 1, o.Open.Len())
	require.Nil(t, o.Add(eventtest.Event(1, spanStart, 1, 0, 5), f).Started)
	var said bytes.Buffer
	o.Report(&console.Console{Err: &said})
	require.Contains(t, said.String(), "2 of 4 probes are left out, one because of this: p:span is a span")
	require.Equal(t, []string{"text1", "text2", "port"}, started.Kind.KeyArgs(unlink))
}

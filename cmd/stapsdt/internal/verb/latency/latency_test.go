package latency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// TestDone: an operation may end with __done.
func TestDone(t *testing.T) {
	p, err := newPairs(querytest.Specs("p:query"), nil)
	require.NoError(t, err)
	for name, want := range map[string]bool{"query__end": true, "query__done": true, "query__start": false, "query__den": false} {
		require.Equal(t, want, p.end.Match("p", name), name)
	}
	k := kinds{pairs: p}
	for _, name := range []string{"query__start", "query__done"} {
		kind, err := k.find("p:"+name, name == "query__start")
		require.NoError(t, err)
		require.Zero(t, kind)
	}
	require.Len(t, k.all, 1)
	require.Equal(t, "p:query__start → p:query__done", k.all[0].String())
}

// TestPairs: what pairs a start and an end is decided by their names, or has to be said.
func TestPairs(t *testing.T) {
	p, err := newPairs(querytest.Specs("p:query__start", "p:query__done"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"arg0"}, p.key)
	_, err = newPairs(querytest.Specs("p:a", "p:a"), nil)
	require.ErrorContains(t, err, "the same probe: p:a")
	for _, names := range [][]string{{"p:begin", "p:done"}, {"p:a__start", "p:b__end"}} {
		p, err := newPairs(querytest.Specs(names...), nil)
		require.NoError(t, err)
		require.ErrorIs(t, p.keyless, query.ErrUsage)
		require.ErrorContains(t, p.keyless, "no key pairs "+names[0]+" with "+names[1]+": give --key arg0")
	}
	p, err = newPairs(querytest.Specs("p:begin", "p:done"), []string{"thread"})
	require.NoError(t, err)
	require.Equal(t, []string{"thread"}, p.key)
}

// TestKinds: with names that match several probes, each start has its own end.
func TestKinds(t *testing.T) {
	p, err := newPairs(querytest.Specs("p:*"), nil)
	require.NoError(t, err)
	k := kinds{pairs: p}
	numbers := map[string]uint32{}
	for _, name := range []string{"read__start", "write__end", "read__end", "write__start"} {
		kind, err := k.find("p:"+name, name[len(name)-5:] == "start")
		require.NoError(t, err)
		numbers[name] = kind
	}
	require.Equal(t, numbers["read__start"], numbers["read__end"])
	require.Equal(t, numbers["write__start"], numbers["write__end"])
	require.NotEqual(t, numbers["read__start"], numbers["write__start"])
}

// TestHeading: a path is in a heading once.
func TestHeading(t *testing.T) {
	for _, test := range []struct {
		o    operation
		want string
	}{
		{operation{start: "a:job__start", end: "a:job__end"}, "a:job__start → a:job__end"},
		{operation{start: "/usr/lib/postgres:p:query__start", end: "/usr/lib/postgres:p:query__done"}, "/usr/lib/postgres:p:query__start → p:query__done"},
		{operation{start: "/a:p:x", end: "/b:p:y"}, "/a:p:x → /b:p:y"},
	} {
		require.Equal(t, test.want, test.o.String())
	}
}

// jobs records eight jobs, of which the third and the sixth do not end, and an end without a start.
func jobs(t *testing.T) (path string) {
	t.Helper()
	var r eventtest.Recording
	start := r.Probe("shop", "job__start", "id", "parent", "text")
	end := r.Probe("shop", "job__end", "id", "status")
	fired := []eventtest.Fired{{Probe: end, Words: []uint64{1000, 0}}}
	for id := range uint64(8) {
		fired = append(fired, eventtest.Fired{Probe: start, Words: []uint64{id, 0}, Texts: []string{fmt.Sprintf("job %d", id%2)}})
		if id%3 != 2 {
			fired = append(fired, eventtest.Fired{Probe: end, Words: []uint64{id, 200 + id%2}})
		}
	}
	for i := range fired {
		fired[i].At = time.Duration(i+1) * time.Millisecond
	}
	r.Chunk(0, 0, fired...)
	path = filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
	return path
}

var objects = query.Config{Format: query.JSON}

// measure returns what latency prints, and the objects of JSON.
func measure(t *testing.T, key string, config query.Config, o count.Options, names ...string) (text string, all []map[string]any) {
	t.Helper()
	var out, warnings bytes.Buffer
	o.Buckets, config.Specs = query.Powers{}, querytest.Specs(names...)
	require.NoError(t, Run(t.Context(), &console.Console{Out: &out, Err: &warnings}, config, strings.Fields(key), o))
	if config.Format == query.JSON {
		for line := range strings.Lines(out.String()) {
			object := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(line), &object))
			all = append(all, object)
		}
	}
	return out.String() + warnings.String(), all
}

// TestRecorded: operations of a recording are paired, by values of the start and of the end, and those that
// are open are shown.
func TestRecorded(t *testing.T) {
	from := []string{jobs(t)}
	o := count.Options{From: replay.From{Paths: from}}
	o.By = []string{"text", "status"}
	_, all := measure(t, "", objects, o, "shop:job")
	require.Len(t, all, 3)
	counts := map[any]any{}
	for _, row := range all[:2] {
		counts[fmt.Sprint(row["by"])] = row["count"]
	}
	require.Equal(t, map[any]any{"map[status:200 text:job 0]": 3., "map[status:201 text:job 1]": 3.}, counts)
	u := all[2]
	require.Equal(t, []any{2., 1., 2.}, []any{u["starts_without_end"], u["ends_without_start"], u["open"]})
	longest := u["longest"].([]any)
	require.Len(t, longest, 2)
	first := longest[0].(map[string]any)
	require.Equal(t, 2., first["key"])
	require.Equal(t, map[string]any{"text": "job 0"}, first["by"])
	require.Equal(t, 9e6, first["nanoseconds"], "from the event at 7 ms to the last one")

	text, _ := measure(t, "", query.Config{}, count.Options{From: replay.From{Paths: from}}, "shop:job")
	require.Contains(t, text, "2 starts without an end (2 still open); 1 end without a start")
	require.Regexp(t, `OPEN FOR +PID +GOROUTINE +ID +text\n`, text)
}

// TestRecordedWhere: a condition that the start can evaluate is about the start, also of ends that have no
// such argument.
func TestRecordedWhere(t *testing.T) {
	o := count.Options{From: replay.From{Paths: []string{jobs(t)}}}
	for where, want := range map[string][]any{
		`text == "job 1"`:                  {3., 1., 1., 1.}, // the count, starts without an end, ends without a start, open
		`status == 200`:                    {3., 2., 1., 2.},
		`text == "job 1" && status == 200`: {nil, 1., 1., 1.},
	} {
		_, all := measure(t, "", query.Config{Where: where, Format: query.JSON}, o, "shop:job")
		u := all[len(all)-1]
		require.Equal(t, want, []any{all[0]["count"], u["starts_without_end"], u["ends_without_start"], u["open"]}, where)
	}
}

// TestRecordedKeys: goroutines pair events, and threads do not if the recording does not have them.
func TestRecordedKeys(t *testing.T) {
	o := count.Options{From: replay.From{Paths: []string{jobs(t)}}}
	_, all := measure(t, "goroutine", objects, o, "shop:job__start", "shop:job__end")
	require.Equal(t, 6., all[0]["count"])
	text, all := measure(t, "thread", objects, o, "shop:job__start", "shop:job__end")
	require.Len(t, all, 1)
	require.Contains(t, text, "15 events are not included, because it is unknown which thread has fired them")
	err := Run(t.Context(), &console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, query.Config{Specs: querytest.Specs("shop:job__start", "shop:nothing")}, []string{"arg0"}, o)
	require.ErrorContains(t, err, "no such probe: there is no shop:nothing")
	o.By = []string{"nothing"}
	err = Run(t.Context(), &console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, query.Config{Specs: querytest.Specs("shop:job")}, nil, o)
	require.ErrorContains(t, err, "nothing")
}

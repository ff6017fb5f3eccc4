package events

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// taker counts the events of a stream, and notes how many had to wait.
type taker struct {
	page    *page
	all     []string
	longest int
}

func (t *taker) Know(*recording.Probe) {}
func (t *taker) Gone(*replay.File)     {}
func (t *taker) Tick() (next time.Duration, more bool, err error) {
	t.longest = max(t.longest, len(t.page.pending))
	return query.Rest, true, nil
}

func (t *taker) Event(e *Event) error {
	t.all = append(t.all, fmt.Sprint(e.Probe.Name, len(e.Probe.Args), string(e.Text(0))))
	return nil
}

// servePage opens the page of a program that sends a text, and then ends without a word. It returns what it was asked for.
func servePage(t *testing.T, where string, specs []string, stream string) (p *page, said *bytes.Buffer, value func(string) string) {
	t.Helper()
	var asked *http.Request
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/probes/probes.json", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"pid":7,"program":"shop","max_viewers":8,"providers":[
			{"name":"a","probes":[{"name":"x","args":[{"name":"text","type":"string"}]},{"name":"y","args":[{"name":"text","type":"string"}]},{"name":"z"}]},
			{"name":"a","probes":[{"name":"x","args":[{"name":"text","type":"string"},{"name":"n","type":"int64"}]}]}]}`)
	})
	mux.HandleFunc("/debug/probes/events", func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ":\n\n", stream)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	said = &bytes.Buffer{}
	p, err := openPage(&console.Console{Out: &bytes.Buffer{}, Err: said}, &query.Config{Specs: querytest.Specs(specs...), Where: where}, &Options{From: replay.From{Address: server.URL}})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, said, func(name string) string { return asked.URL.Query().Get(name) }
}

// sent is an event that a program sends.
func sent(at time.Time, probe, args string) string {
	return fmt.Sprintf("data: {\"time\":%q,\"provider\":\"a\",\"probe\":%q,\"pid\":7,\"args\":{%s}}\n\n", at.Format(time.RFC3339Nano), probe, args)
}

// TestPageGone: what a program has sent before it went away is delivered, and the command says that it went.
func TestPageGone(t *testing.T) {
	now := time.Now().Add(-time.Second)
	p, _, _ := servePage(t, "", []string{"a:*"}, sent(now.Add(1), "x", `"text":"second"`)+sent(now, "x", `"text":"first","n":1`)+sent(now, "other", ``)+
		"event: stats\ndata: {\"dropped\":3}\n\nevent: stats\ndata: {\"dropped\":1}\n\n")
	c := &taker{page: p}
	require.NoError(t, p.Run(context.Background(), c))
	require.Equal(t, []string{"x2first", "x1second"}, c.all, "of two probes of one name, by their arguments")
	require.EqualValues(t, 3, p.Lost())
	first := time.Duration(now.UnixNano())
	require.False(t, p.program.Keeps(first), "the end of an operation can be among the lost")
	require.Greater(t, p.program.Last(), first+1, "time has gone on since")
	require.ErrorContains(t, p.Report("", 0), "has gone away")
}

// TestPageOrder: a program whose times fall does not let its events wait without bound.
func TestPageOrder(t *testing.T) {
	now := time.Now()
	var stream strings.Builder
	for i := range 10 * maxPending {
		stream.WriteString(sent(now.Add(-time.Duration(i)), "y", `"text":""`))
	}
	p, _, _ := servePage(t, "", []string{"a:*"}, stream.String())
	c := &taker{page: p}
	require.NoError(t, p.Run(context.Background(), c))
	require.Len(t, c.all, 10*maxPending)
	require.LessOrEqual(t, c.longest, maxPending)
}

// TestPageQuery: the program is asked for the selected probes only, and for the condition if it has everything that this uses. Then it has
// the whole text, of which it sends the beginning.
func TestPageQuery(t *testing.T) {
	cut := sent(time.Now(), "y", `"text":"`+strings.Repeat("t", 1024)+`…"`)
	for _, c := range []struct {
		where         string
		specs         []string
		probe, filter string
		want          int // events
	}{
		{"", []string{"a:y"}, "y", "", 1},
		{`len(text) > 2000`, []string{"a:y"}, "y", `len(text) > 2000`, 1},
		{`executable == "shop"`, []string{"a:y"}, "y", "", 1},
		{`executable == "other"`, []string{"a:y"}, "y", "", 0},
		{"", []string{"a:y", "a:z"}, "", `provider == "a" && probe == "y" || provider == "a" && probe == "z"`, 1},
		{`text != ""`, []string{"a:y", "a:x"}, "", `(provider == "a" && probe == "x" || provider == "a" && probe == "y" || provider == "a" && probe == "x") && (text != "")`, 1},
	} {
		p, _, query := servePage(t, c.where, c.specs, cut)
		require.Equal(t, []string{"a", c.probe, c.filter}, []string{query("provider"), query("probe"), query("filter")}, c)
		got := &taker{page: p}
		require.NoError(t, p.Run(context.Background(), got))
		require.Len(t, got.all, c.want, c)
	}
	for where, faults := range map[string]uint64{`executable == "shop" && `: 1, `executable == "other" && `: 0, `executable == "shop" || `: 0} {
		p, _, _ := servePage(t, where+`strings.HasSuffix(text, "t")`, []string{"a:y"}, cut)
		require.NoError(t, p.Run(context.Background(), &taker{page: p}))
		require.Equal(t, faults, p.Faults, "the end of the text is not known")
	}
}

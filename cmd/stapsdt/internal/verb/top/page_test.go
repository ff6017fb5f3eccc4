package top

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"

	"github.com/stretchr/testify/require"
)

// TestPage: the operations of a page have rates of this machine's clock, whatever that of the program says, and the
// time for which one is open is by the program's.
func TestPage(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		began := time.Now().Add(skew)
		fired := func(at time.Duration, probe string, id int) string {
			when := began.Add(at).Format(time.RFC3339Nano)
			return fmt.Sprintf("data: {\"time\":%q,\"provider\":\"p\",\"probe\":%q,\"pid\":7,\"args\":{\"id\":%d}}\n\n", when, probe, id)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/probes/probes.json", func(w http.ResponseWriter, _ *http.Request) {
			const arg = `"args":[{"name":"id","type":"uint64"}]`
			fmt.Fprintf(w, `{"pid":7,"program":"shop","providers":[{"name":"p","probes":[{"name":"op__start",%s},{"name":"op__end",%s}]}]}`, arg, arg)
		})
		mux.HandleFunc("/debug/probes/events", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ":\n\n", fired(0, "op__start", 1), fired(time.Millisecond, "op__end", 1), fired(2*time.Millisecond, "op__start", 2),
				"event: end\ndata: {\"reason\":\"time\"}\n\n")
		})
		server := httptest.NewServer(mux)
		var out, said bytes.Buffer
		config := query.Config{Format: query.JSON}
		o := Options{From: replay.From{Address: server.URL}, Interval: time.Hour}
		require.NoError(t, Run(t.Context(), &console.Console{Out: &out, Err: &said}, config, o), said.String())
		server.Close()
		var shown struct {
			Seconds    float64
			Operations []struct {
				Count, Rate float64
				P50         time.Duration
			}
			Longest []struct{ Nanoseconds time.Duration }
		}
		require.NoError(t, json.Unmarshal(out.Bytes(), &shown), out.String())
		require.Len(t, shown.Operations, 1, out.String())
		require.Equal(t, 1., shown.Operations[0].Count)
		require.Less(t, shown.Seconds, 600., "and not the difference of two clocks")
		require.InDelta(t, 1, shown.Operations[0].Rate*shown.Seconds, 0.01)
		require.Equal(t, time.Millisecond, shown.Operations[0].P50)
		require.Less(t, shown.Longest[0].Nanoseconds, 600*time.Second)
	}
}

package list

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// listed returns what list prints and says.
func listed(t *testing.T, paths []string, o Options) (out, said string, err error) {
	t.Helper()
	var b, warnings bytes.Buffer
	err = Run(t.Context(), &console.Console{Out: &b, Err: &warnings}, query.Target{}, paths, o)
	return b.String(), warnings.String(), err
}

// TestNoProcess: the processes of a probe are an array, even if none is known.
func TestNoProcess(t *testing.T) {
	b, err := json.Marshal(newProbe(&recording.Probe{Provider: "p", Name: "one"}))
	require.NoError(t, err)
	require.Equal(t, `{"provider":"p","probe":"one","args":[],"pids":[],"traced":null}`, string(b))
}

// TestRecorded: each probe of a recording has the number of its events, in the time that is asked for, and the heading says when
// that was and what was lost.
func TestRecorded(t *testing.T) {
	r := eventtest.Recording{Realtime: time.Hour}
	tick, tock := r.Probe("p", "tick", "n", "text"), r.Probe("p", "tock")
	r.Probe("q", "never", "id")
	var fired []eventtest.Fired
	for i := range uint64(5) {
		at := time.Duration(i+1) * time.Second
		fired = append(fired, eventtest.Fired{Probe: tick, At: at, Words: []uint64{i}, Texts: []string{"\x1b[7m"}})
	}
	r.Chunk(3, 2, append(fired, eventtest.Fired{Probe: tock, At: 9 * time.Second})...)
	path := filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
	o := Options{From: replay.From{Paths: []string{path}}}
	at := func(second int64) string { return time.Unix(3600+second, 0).Format("15:04:05.000000") }
	heading := func(first, last int64) string {
		day := time.Unix(3600, 0).Format("2006-01-02")
		return fmt.Sprintf("%s (process 7, /bin/app, %s %s to %s; lost 2", path, day, at(first), at(last))
	}

	out, said, err := listed(t, nil, o)
	require.NoError(t, err)
	require.Contains(t, out, heading(1, 9))
	require.Contains(t, out, "\n  p:tick(n uint64, text string)  # 5 events\n  p:tock()  # 1 event\n  q:never(id uint64)  # 0 events\n")
	require.Empty(t, said)

	o.From.Since = "5s"
	out, _, err = listed(t, nil, o)
	require.NoError(t, err)
	require.Contains(t, out, heading(4, 9))
	require.Contains(t, out, "p:tick(n uint64, text string)  # 2 events\n")

	o.Format = query.JSON
	out, _, err = listed(t, nil, o)
	require.NoError(t, err)
	require.Contains(t, out, `"provider":"p","probe":"tick","args":[{"name":"n","type":"uint64"},{"name":"text","type":"string"}],"pids":[7],"traced":null,"events":2}`)
	require.Contains(t, out, `"lost":2`)

	for _, c := range []struct {
		paths []string
		o     Options
	}{
		{nil, Options{From: o.From, Verbose: true}}, {[]string{"file"}, o}, {[]string{"http://localhost", "file"}, Options{}}, {nil, Options{}},
	} {
		_, _, err := listed(t, c.paths, c.o)
		require.ErrorIs(t, err, query.ErrUsage, "%v", c)
	}
}

// TestRemote: the probes of a page are in the order of their names, with what the program knows about them.
func TestRemote(t *testing.T) {
	probes := `{"name":"b","args":[{"name":"n","type":"int64"}],"sites":2,"traced":true},{"name":"a","args":[]}`
	serve := func(providers string) string {
		answer := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"pid":12,"program":"app","providers":[%s]}`, providers)
		}
		server := httptest.NewServer(http.HandlerFunc(answer))
		t.Cleanup(server.Close)
		return server.URL
	}
	page := serve(`{"name":"p","loaded":true,"path":"/tmp/image.so","probes":[` + probes + `]},{"name":"none","probes":[]},{"name":"q","probes":[{"name":"c","args":[]}]}`)
	out, said, err := listed(t, []string{page}, Options{})
	require.NoError(t, err)
	require.Equal(t, "/tmp/image.so (process 12)\n  p:a()\n  p:b(n int64)  # 2 sites, traced now\n\nnot loaded (process 12)\n  q:c()\n", out)
	require.Empty(t, said)
	_, _, err = listed(t, []string{serve("")}, Options{})
	require.ErrorIs(t, err, query.ErrNothing)
	_, _, err = listed(t, []string{page}, Options{Verbose: true})
	require.ErrorIs(t, err, query.ErrUsage)
}

package debugprobe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
)

// TestFlightRecorder: the handler serves what recorders hold, or the last events of each.
func TestFlightRecorder(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	recorder := proberec.New(1, p)
	recorder.Start()
	defer recorder.Stop()
	for i := range 100 {
		probe.Fire(i)
	}
	server := httptest.NewServer(Handler(nil, recorder, nil, recorder))
	defer server.Close()
	for query, want := range map[string]int{"": 200, "?last=3": 6, "?last=1000": 200} {
		answer := get(t, server.URL+"/recorder.json"+query)
		require.Equal(t, 200, answer.StatusCode)
		require.Equal(t, "application/jsonl", answer.Header.Get("Content-Type"))
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		require.Len(t, lines, want)
		for i, line := range lines {
			n := i % (want / 2)
			require.Contains(t, line, fmt.Sprintf(`"probe":"event","pid":%d,"args":{"n":%d}}`, os.Getpid(), 100-want/2+n))
		}
	}
	status, e := failure(t, server.URL+"/recorder.json?last=x")
	require.Equal(t, 400, status)
	require.Equal(t, "last", e.Parameter)
	var l listing
	require.NoError(t, json.NewDecoder(get(t, server.URL+"/probes.json").Body).Decode(&l))
	require.Equal(t, 2, l.Recorders)
	status, _ = failure(t, newServer(t).URL+"/debug/probes/recorder.json")
	require.Equal(t, 404, status)
}

// TestRecordingDownload: what is downloaded is a recording of the recorder that was asked for.
func TestRecordingDownload(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	started, idle := proberec.New(1, p), proberec.New(1)
	started.Start()
	defer started.Stop()
	for i := range 100 {
		probe.Fire(i)
	}
	server := httptest.NewServer(Handler(idle, started))
	defer server.Close()
	var l listing
	require.NoError(t, json.NewDecoder(get(t, server.URL+"/probes.json").Body).Decode(&l))
	require.Equal(t, []int{1, 2}, l.Recordings)

	answer := get(t, server.URL+"/recording.rec?recorder=2")
	require.Equal(t, 200, answer.StatusCode)
	require.Equal(t, `attachment; filename="probes.rec"`, answer.Header.Get("Content-Disposition"))
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	r := eventtest.Read(t, bytes.NewReader(content))
	for i := range 100 {
		e, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, "event", e.Probe.Name)
		require.EqualValues(t, i, e.Word(0))
	}

	for query, want := range map[string]int{"": 503, "?recorder=1": 503, "?recorder=3": 400, "?recorder=x": 400} {
		status, _ := failure(t, server.URL+"/recording.rec"+query)
		require.Equal(t, want, status, query)
	}
	status, _ := failure(t, newServer(t).URL+"/debug/probes/recording.rec?recorder=1")
	require.Equal(t, 404, status)
}

// stuckRecorder is a recorder that takes long to write.
type stuckRecorder struct{ writing, goOn chan struct{} }

func (s *stuckRecorder) WriteTo(io.Writer) (int64, error) { return 0, nil }

func (s *stuckRecorder) WriteJSON(io.Writer) (int64, error) {
	s.writing <- struct{}{}
	<-s.goOn
	return 0, nil
}

// TestOneReader: two clients do not read the flight recorder at the same time.
func TestOneReader(t *testing.T) {
	r := &stuckRecorder{make(chan struct{}), make(chan struct{})}
	server := httptest.NewServer((&flight{recorders: []recorder{r, proberec.New(1)}}).handler())
	defer server.Close()
	go http.Get(server.URL + "/recorder.json")
	<-r.writing
	for _, path := range []string{"/recorder.json", "/recording.rec?recorder=2"} {
		status, _ := failure(t, server.URL+path)
		require.Equal(t, 503, status)
	}
	close(r.goOn)
}

package debugprobe

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// wait is for what takes a moment on an idle machine.
const wait = testenv.Patience

// newProvider returns a provider that is closed when the test ends. Its name is that of the
// test, so that the probes of other tests are not watched.
func newProvider(t testing.TB) *stapsdt.Provider {
	p := stapsdt.NewProvider(strings.ReplaceAll(t.Name(), "/", "."))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func newServer(t testing.TB) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle("/debug/probes/", Handler())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server
}

// address returns the address of an endpoint. The parameters are name, value, name, value.
func address(server *httptest.Server, endpoint string, p *stapsdt.Provider, parameters ...string) string {
	query := url.Values{"provider": {p.Name()}}
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	return server.URL + "/debug/probes/" + endpoint + "?" + query.Encode()
}

func get(t testing.TB, url string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); answer.Body.Close() })
	return answer
}

// inBubble serves a request whose path has no prefix, calls fire as soon as the handler waits, and returns when the handler has
// ended. The time is a bubble's: it stands still while fire runs, and what the handler waits for comes at once.
func inBubble(t *testing.T, w http.ResponseWriter, path string, fire func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		}()
		synctest.Wait()
		fire()
		<-done
	})
}

// watchLines starts a stream and returns a function that returns its next line, or "" after
// the last. The probe is observed when it returns.
func watchLines(t testing.TB, probe *stapsdt.Probe, url string) func() string {
	t.Helper()
	answer := get(t, url)
	require.Equal(t, 200, answer.StatusCode)
	require.Eventually(t, probe.Enabled, wait, time.Millisecond)
	lines := bufio.NewReader(answer.Body)
	return func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != io.EOF {
			require.NoError(t, err)
		}
		return strings.TrimSuffix(line, "\n")
	}
}

// failure is an answer that is an error.
func failure(t testing.TB, url string) (status int, p problem) {
	t.Helper()
	answer := get(t, url)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	var body struct{ Error problem }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
	require.NotEmpty(t, body.Error.Message)
	return answer.StatusCode, body.Error
}

func TestList(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	stapsdt.NewProbe6[string, []byte, time.Duration, bool, float32, unsafe.Pointer](p, "typed", "path", "body", "elapsed", "ok", "load", "where")
	dynamic, err := p.AddProbe("dynamic", stapsdt.Uint8, stapsdt.Int16, stapsdt.String, stapsdt.Float64)
	require.NoError(t, err)
	_, err = p.AddProbe("dynamic", stapsdt.Uint8, stapsdt.Int16, stapsdt.String, stapsdt.Float64)
	require.NoError(t, err)
	_, err = p.AddProbe("<script>alert(1)</script>")
	require.Error(t, err, "a slash is not allowed in names")
	hostile, err := p.AddProbe(`<img+src=x+onerror='alert(1)'>&amp;`)
	require.NoError(t, err)
	read := func() *providerInfo {
		answer := get(t, server.URL+"/debug/probes/probes.json")
		require.Equal(t, 200, answer.StatusCode)
		require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NotContains(t, string(text), "<")
		var l listing
		require.NoError(t, json.Unmarshal(text, &l))
		require.Equal(t, os.Getpid(), l.PID)
		require.NotEmpty(t, l.Program)
		for _, info := range l.Providers {
			if info.Name == p.Name() {
				return info
			}
		}
		require.Fail(t, "the provider is missing")
		return nil
	}
	require.Equal(t, &providerInfo{Name: p.Name(), Probes: []*probeInfo{
		{Name: "typed", Sites: 1, Args: []argInfo{{"path", "string"}, {"body", "string"}, {"elapsed", "time.Duration"}, {"ok", "bool"}, {"load", "float32"}, {"where", "pointer"}}},
		{Name: "dynamic", Sites: 2, Args: []argInfo{{"arg0", "uint8"}, {"arg1", "int16"}, {"arg2", "string"}, {"arg3", "float64"}}},
		{Name: hostile.Name(), Sites: 1, Args: []argInfo{}},
	}}, read())
	defer p.Observe(func(*stapsdt.Event) {}, dynamic)()
	if p.Load() == nil {
		require.True(t, read().Loaded)
		require.Equal(t, p.Path(), read().Path)
	}
	info := read()
	require.Equal(t, []bool{false, true, false}, []bool{info.Probes[0].Enabled, info.Probes[1].Enabled, info.Probes[2].Enabled})
}

// TestEventLines: every kind of argument, with text that tries to be something else.
func TestEventLines(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	probe := stapsdt.NewProbe6[string, int64, time.Duration, bool, float64, unsafe.Pointer](p, "event", "text", "number", "elapsed", "ok", "load", "where")
	next := watchLines(t, &probe.Probe, address(server, "events.json", p, "events", "5", "probe", "event"))
	texts := []string{
		"/index.html", "</script><script>alert(1)</script>&\"'\\", "a\r\n\ndata: {}\n\nevent: end\n\x00\x1b\x7f\u2028\u2029\u202e", "\xff\xfe日本", strings.Repeat("é", 2000),
	}
	before := time.Now()
	var x int
	for i, text := range texts {
		probe.Fire(text, math.MinInt64+int64(i), time.Duration(i)*time.Second, i%2 == 0, []float64{1.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e300}[i], unsafe.Pointer(&x))
	}
	for i, text := range texts {
		line := next()
		require.NotContains(t, line, "<")
		require.True(t, strings.HasPrefix(line, `{"time":"`), line)
		require.Contains(t, line, `","provider":"TestEventLines","probe":"event","pid":`)
		var e struct {
			Time            time.Time
			Provider, Probe string
			PID             int
			Args            struct {
				Text    string
				Number  int64
				Elapsed time.Duration
				OK      bool
				Load    any
				Where   string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		require.WithinRange(t, e.Time, before.Add(-time.Second), time.Now().Add(time.Second))
		require.Equal(t, os.Getpid(), e.PID)
		want := strings.ToValidUTF8(text, "\ufffd\ufffd")
		if i == 3 {
			want = "\ufffd\ufffd日本"
		}
		if i == 4 {
			want = strings.Repeat("é", maxText/2) + "…"
		}
		require.Equal(t, want, e.Args.Text)
		require.Equal(t, math.MinInt64+int64(i), e.Args.Number)
		require.Equal(t, time.Duration(i)*time.Second, e.Args.Elapsed)
		require.Equal(t, i%2 == 0, e.Args.OK)
		require.Equal(t, []any{1.5, "NaN", "+Inf", "-Inf", 1e300}[i], e.Args.Load)
		require.Regexp(t, "^0x[0-9a-f]+$", e.Args.Where)
		if i == 0 {
			require.Regexp(t, `"args":\{"text":"/index.html","number":-9223372036854775808,"elapsed":0,"ok":true,"load":1.5,"where":"0x[0-9a-f]+"\}\}$`, line)
		}
	}
	require.Equal(t, `{"end":{"reason":"events","stats":{"matched":5,"sent":5,"dropped":0,"faults":0}}}`, next())
	require.Empty(t, next())
	require.Eventually(t, func() bool { return !probe.Enabled() }, wait, time.Millisecond)
}

// TestFilter: a filter selects events, and leaves out a probe that does not have what it asks for.
func TestFilter(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	probe := stapsdt.NewProbe3[string, int32, int32](p, "event", "path", "status", "zero")
	idle := stapsdt.NewProbe0(p, "idle")
	next := watchLines(t, &probe.Probe, address(server, "events.json", p, "events", "2",
		"filter", `status >= 500 && strings.HasPrefix(path, "/api/") && arg1/zero == 500 && pid > 0 && 1.5ms > 20us && provider == "TestFilter" && probe == "event"`))
	require.False(t, idle.Enabled())
	probe.Fire("/api/a", 500, 1)
	probe.Fire("/api/b", 499, 1)
	probe.Fire("/api/c", 500, 0) // a fault
	probe.Fire("/d", 500, 1)
	probe.Fire("/api/e", 1000, 2)
	require.Contains(t, next(), `"args":{"path":"/api/a","status":500,"zero":1}`)
	require.Contains(t, next(), `"args":{"path":"/api/e","status":1000,"zero":2}`)
	require.Equal(t, `{"end":{"reason":"events","stats":{"matched":2,"sent":2,"dropped":0,"faults":1}}}`, next())
}

// TestUnnamed: a probe without names, and all probes of a provider.
func TestUnnamed(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	a, err := p.AddProbe("a", stapsdt.Uint64, stapsdt.String)
	require.NoError(t, err)
	b := stapsdt.NewProbe1[uint64](p, "b")
	next := watchLines(t, a, address(server, "events.json", p, "events", "2", "filter", "arg0 > 1"))
	require.Eventually(t, b.Enabled, wait, time.Millisecond)
	require.NoError(t, a.Fire(1, ""))
	require.NoError(t, a.Fire(uint64(math.MaxUint64), "text"))
	b.Fire(2)
	require.Contains(t, next(), `"probe":"a","pid":`)
	require.Contains(t, next(), `"args":{"arg0":2}}`)
}

func TestServerSentEvents(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe2[string, time.Duration](p, "event", "path", "elapsed")
	answer := httptest.NewRecorder()
	inBubble(t, answer, "/events?seconds=2&value=elapsed&by=path&provider="+p.Name(), func() {
		for range 10 {
			probe.Fire("/a\n\n", 3*time.Millisecond)
		}
		probe.Fire("/b", 5*time.Second)
	})
	require.Equal(t, "text/event-stream", answer.Header().Get("Content-Type"))
	got := map[string][]string{}
	for block := range strings.SplitSeq(strings.TrimSuffix(answer.Body.String(), "\n\n"), "\n\n") {
		if block == ":" {
			continue
		}
		name, data := "message", block
		if rest, ok := strings.CutPrefix(block, "event: "); ok {
			name, data, _ = strings.Cut(rest, "\n")
		}
		data, ok := strings.CutPrefix(data, "data: ")
		require.True(t, ok && !strings.Contains(data, "\n"), block)
		require.True(t, json.Valid([]byte(data)), data)
		got[name] = append(got[name], data)
	}
	require.Len(t, got["message"], 11)
	require.GreaterOrEqual(t, len(got["stats"]), 2)
	require.Equal(t, `{"matched":11,"sent":11,"dropped":0,"faults":0}`, got["stats"][len(got["stats"])-1])
	require.Equal(t, []string{`{"reason":"time","stats":{"matched":11,"sent":11,"dropped":0,"faults":0}}`}, got["end"])
	var c chart
	require.NoError(t, json.Unmarshal([]byte(got["histogram"][len(got["histogram"])-1]), &c))
	require.Equal(t, "elapsed", c.Value)
	require.Equal(t, "path", c.By)
	require.Equal(t, "time.Duration", c.Type)
	require.Len(t, c.Groups, 2)
	require.Equal(t, "/a\n\n", c.Groups[0].Key)
	require.EqualValues(t, 10, c.Groups[0].Count)
	require.EqualValues(t, 5e9, c.Groups[1].Numbers.P50)
}

func TestHistogramJSON(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe2[bool, float64](p, "event", "ok", "load")
	answer := httptest.NewRecorder()
	inBubble(t, answer, "/histogram.json?seconds=1&by=ok&value=load*2&provider="+p.Name(), func() {
		probe.Fire(true, 1.5)
		probe.Fire(true, -1.5)
		probe.Fire(false, 0)
		probe.Fire(false, math.NaN())
	})
	c := &chart{}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), c))
	require.Equal(t, &stats{Matched: 4, Faults: 1}, c.Stats)
	require.Len(t, c.Groups, 2)
	require.Equal(t, "true", c.Groups[0].Key)
	require.Equal(t, &numbers{Mean: 0, Min: -3, P50: -2.8284271247461903, P90: 3, P99: 3, Max: 3}, c.Groups[0].Numbers)
	require.Equal(t, "false", c.Groups[1].Key)
	require.Equal(t, [][3]float64{{0, 0, 1}}, c.Groups[1].Buckets)
}

func TestErrors(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	probe := stapsdt.NewProbe2[string, int32](p, "event", "path", "status")
	stapsdt.NewProbe0(p, "other")
	for _, c := range []struct {
		endpoint   string
		parameters []string
		status     int
		parameter  string
		offset     int // or -1
		message    string
	}{
		{"events", []string{"probe", "event", "filter", `status >= 500 && pth == "/"`}, 400, "filter", 17, "undefined: pth"},
		{"events", []string{"probe", "event", "filter", `"é" == path && x`}, 400, "filter", 16, "undefined: x"},
		{"events.json", []string{"probe", "event", "filter", "status"}, 400, "filter", 0, "must be a condition"},
		{"events", []string{"probe", "other", "filter", "status > 1"}, 400, "filter", 0, "undefined: status; the names are pid, provider, probe (for TestErrors:other)"},
		{"events", []string{"probe", "event", "filter", strings.Repeat(" ", maxSource) + "true"}, 400, "filter", -1, "at most 1024"},
		{"events", []string{"probe", "event", "value", "path"}, 400, "value", 0, "a histogram takes numbers"},
		{"histogram.json", []string{"probe", "event", "value", "status +"}, 400, "value", 8, "an operand is missing at the end"},
		{"histogram.json", []string{"probe", "event"}, 400, "value", -1, "missing"},
		{"events.json", []string{"probe", "event", "by", "path"}, 400, "value", -1, "no histograms"},
		{"events", []string{"probe", "none"}, 404, "probe", -1, "no provider"},
		{"events", []string{"seconds", "601"}, 400, "seconds", -1, "from 1 to 600"},
		{"events", []string{"seconds", "-1"}, 400, "seconds", -1, ""},
		{"events", []string{"rate", "1001"}, 400, "rate", -1, "from 1 to 1000"},
		{"events", []string{"rate", "1e2"}, 400, "rate", -1, "whole number"},
		{"events", []string{"events", "99999999999999999999"}, 400, "events", -1, ""},
		{"events", []string{"fliter", "true"}, 400, "fliter", -1, `no parameter "fliter"`},
		{"nothing", nil, 404, "", -1, "no such page"},
	} {
		status, e := failure(t, address(server, c.endpoint, p, c.parameters...))
		require.Equal(t, c.status, status, c.parameters)
		require.Equal(t, c.parameter, e.Parameter, c.parameters)
		require.Contains(t, e.Message, c.message)
		if c.offset < 0 {
			require.Nil(t, e.Offset)
			continue
		}
		require.Equal(t, c.offset, *e.Offset, c.parameters)
		require.Contains(t, e.Text, "^")
	}
	status, e := failure(t, address(server, "events", p)+"&seconds=1&seconds=2")
	require.Equal(t, 400, status)
	require.Contains(t, e.Message, "more than once")
	status, _ = failure(t, address(server, "events", p)+"&x=%zz")
	require.Equal(t, 400, status)
	answer, err := http.Post(server.URL+"/debug/probes/probes.json", "text/plain", nil)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 405, answer.StatusCode)
	require.Equal(t, "GET, HEAD", answer.Header.Get("Allow"))
	answer, err = http.Head(address(server, "events", p))
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 200, answer.StatusCode)
	require.False(t, probe.Enabled())
	require.Zero(t, viewers.Load())
}

// TestMounting: the handler works below any prefix, also one that is stripped.
func TestMounting(t *testing.T) {
	for _, h := range []http.Handler{Handler(), http.StripPrefix("/a/b", Handler())} {
		for _, path := range []string{"/a/b/", "/a/b/page.js", "/a/b/page.css", "/a/b/probes.json"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			require.Equal(t, 200, w.Code, path)
			require.NotEmpty(t, w.Body.String())
		}
	}
}

// eager is a client that fires as soon as it has the header.
type eager struct {
	*httptest.ResponseRecorder
	once func()
}

func (e eager) Flush() {
	e.once()
	e.ResponseRecorder.Flush()
}

// TestFromTheHeader: events are watched when a client gets the header.
func TestFromTheHeader(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe1[string](p, "event", "text")
	w := eager{httptest.NewRecorder(), sync.OnceFunc(func() { probe.Fire("first") })}
	r := httptest.NewRequest("GET", "/debug/probes/events.json?events=1&provider="+url.QueryEscape(p.Name()), nil)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	Handler().ServeHTTP(w, r.WithContext(ctx))
	require.Contains(t, w.Body.String(), `"args":{"text":"first"}`)
}

package debugprobe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestRate: events beyond the rate are counted and dropped, and still in the histogram.
func TestRate(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe1[int](p, "event", "n")
	const fired = 5000
	answer := httptest.NewRecorder()
	inBubble(t, answer, "/events?rate=10&seconds=1&value=n&provider="+p.Name(), func() {
		for i := range fired {
			probe.Fire(i)
		}
	})
	text := answer.Body.String()
	var end struct{ Stats stats }
	_, last, _ := strings.Cut(text, "event: end\ndata: ")
	require.NoError(t, json.Unmarshal([]byte(last), &end))
	require.Equal(t, stats{Matched: fired, Sent: 10, Dropped: fired - 10}, end.Stats)
	require.Equal(t, 10, strings.Count(text, `{"time":`))
	require.Contains(t, text, fmt.Sprintf(`"count":%d`, fired))
}

func TestTokens(t *testing.T) {
	b := tokens{rate: 100, left: 100}
	taken := 0
	for now := time.Duration(0); now < 10*time.Second; now += time.Millisecond {
		for range 3 {
			if b.take(now) {
				taken++
			}
		}
		b.take(now - time.Hour) // another processor's clock, or an event that was overtaken
	}
	require.InDelta(t, 1100, taken, 300)
	require.LessOrEqual(t, taken, 1100)
	require.True(t, b.take(time.Hour))
}

// stuck is a connection that accepts nothing after its header.
type stuck struct {
	header  http.Header
	wrote   chan struct{}
	release chan struct{}
	once    sync.Once
}

func newStuck() *stuck {
	return &stuck{header: http.Header{}, wrote: make(chan struct{}), release: make(chan struct{})}
}

func (s *stuck) Header() http.Header { return s.header }
func (s *stuck) WriteHeader(int)     {}
func (s *stuck) Flush()              {}
func (s *stuck) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("args")) {
		s.once.Do(func() { close(s.wrote) })
		<-s.release
	}
	return len(b), nil
}

// TestPending: a viewer's buffer is bounded.
func TestPending(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe1[string](p, "event", "text")
	r, err := parse(httptest.NewRequest("GET", "/events?rate=1000&provider="+p.Name(), nil))
	require.NoError(t, err)
	v := newViewer(r, "data: ", "\n\n")
	stop := v.start()
	defer stop()
	for range 900 {
		probe.Fire(strings.Repeat("\x01", 4000)) // more than 6 KiB each
	}
	b, s := v.take(nil)
	require.LessOrEqual(t, len(b), maxPending)
	require.Greater(t, len(b), maxPending-10_000)
	require.EqualValues(t, 900, s.Sent+s.Dropped)
	require.Equal(t, int(s.Sent), bytes.Count(b, []byte("data: ")))
	for block := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte("\n\n")), []byte("\n\n")) {
		require.True(t, json.Valid(bytes.TrimPrefix(block, []byte("data: "))))
	}
}

// TestUnwatchedEventsAllocateNothing: nor do those of a histogram.
func TestUnwatchedEventsAllocateNothing(t *testing.T) {
	testenv.NotRaced(t, "its pools drop things")
	p := newProvider(t)
	probe := stapsdt.NewProbe3[string, int32, time.Duration](p, "event", "path", "status", "elapsed")
	for _, query := range []string{"filter=status>500", "value=elapsed&by=path&filter=status==200", "by=status", "rate=1"} {
		r, err := parse(httptest.NewRequest("GET", "/events?provider="+p.Name()+"&"+query, nil))
		require.NoError(t, err)
		v := newViewer(r, "data: ", "\n\n")
		stop := v.start()
		fire := func() { probe.Fire("/api/items", 200, time.Millisecond) }
		for range 2000 { // fills what is bounded
			fire()
		}
		require.Zero(t, testing.AllocsPerRun(100, fire), query)
		stop()
	}
}

func TestViewers(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	probe := stapsdt.NewProbe0(p, "event")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxViewers {
		r, err := http.NewRequestWithContext(ctx, "GET", address(server, "events", p), nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, 200, answer.StatusCode)
	}
	for _, endpoint := range []string{"events", "events.json"} {
		status, e := failure(t, address(server, endpoint, p))
		require.Equal(t, 503, status)
		require.Contains(t, e.Message, "too many viewers")
	}
	// The place comes first, because reading the expressions is the expensive part.
	for _, endpoint := range []string{"events", "events.json", "histogram.json"} {
		status, _ := failure(t, address(server, endpoint, p, "filter", "not an expression"))
		require.Equal(t, 503, status, endpoint)
	}
	require.True(t, probe.Enabled())
	cancel()
	require.Eventually(t, func() bool { return viewers.Load() == 0 && !probe.Enabled() }, wait, time.Millisecond)
	require.Equal(t, 200, get(t, address(server, "events", p, "seconds", "1")).StatusCode)
}

// TestManyProbes: expressions are read once for all probes with arguments of the same names and
// types, not 10,000 times.
func TestManyProbes(t *testing.T) {
	p := newProvider(t)
	const n = 1000
	for i := range n {
		stapsdt.NewProbe1[int64](p, fmt.Sprint("a", i), "n")
		stapsdt.NewProbe1[uint8](p, fmt.Sprint("b", i), "n")
		stapsdt.NewProbe1[int64](p, fmt.Sprint("c", i), "m")
		stapsdt.NewProbe2[int64, string](p, fmt.Sprint("d", i))
	}
	q, err := parse(httptest.NewRequest("GET", "/events?filter=arg0>1&value=arg0&provider="+p.Name(), nil))
	require.NoError(t, err)
	require.Len(t, q.probes, 4*n)
	read := map[*expressions]int{}
	for _, w := range q.probes {
		read[w.expressions]++
	}
	require.Len(t, read, 4)
	for e, probes := range read {
		require.Equal(t, n, probes)
		require.NotNil(t, e.filter)
	}
}

// TestShutdown: a server need not wait for its viewers.
func TestShutdown(t *testing.T) {
	server, p := newServer(t), newProvider(t)
	probe := stapsdt.NewProbe0(p, "event")
	next := watchLines(t, &probe.Probe, address(server, "events.json", p))
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	require.NoError(t, server.Config.Shutdown(ctx))
	require.Contains(t, next(), `{"end":{"reason":"shutdown"`)
	require.NoError(t, server.Config.Shutdown(ctx))
	require.False(t, probe.Enabled())
}

// limited is the response of a server that limits the time of its responses.
type limited struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (l *limited) SetWriteDeadline(deadline time.Time) error {
	l.deadline = deadline
	return nil
}

func (l *limited) Write(b []byte) (int, error) {
	if !time.Now().Before(l.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return l.ResponseRecorder.Write(b)
}

// TestWriteTimeout: a stream may take longer than the server's other responses.
func TestWriteTimeout(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe0(p, "event")
	answer := &limited{ResponseRecorder: httptest.NewRecorder()}
	inBubble(t, answer, "/events.json?seconds=60&provider="+p.Name(), func() {
		answer.deadline = time.Now().Add(time.Second)
		time.Sleep(50 * time.Second)
		probe.Fire()
	})
	require.Contains(t, answer.Body.String(), `"args":{}`)
	require.Contains(t, answer.Body.String(), `{"end":{"reason":"time"`)
}

// TestStalledClient: the stream of a client that reads nothing ends.
func TestStalledClient(t *testing.T) {
	testenv.Long(t, "it waits until the stream ends")
	server, p := newServer(t), newProvider(t)
	probe := stapsdt.NewProbe1[string](p, "event")
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", strings.TrimPrefix(address(server, "events", p, "rate", "1000"), server.URL))
	require.NoError(t, err)
	require.Eventually(t, probe.Enabled, wait, time.Millisecond)
	big := strings.Repeat("\x01", 4000)
	start := time.Now()
	for probe.Enabled() {
		probe.Fire(big)
		time.Sleep(100 * time.Microsecond)
	}
	require.Greater(t, time.Since(start), patience)
}

func TestBuckets(t *testing.T) {
	for i := range numBuckets - 1 {
		start, end := bucketStart(i), bucketStart(i+1)
		require.Less(t, start, end)
		require.InDelta(t, 1.189, end/start, 0.001)
		require.Equal(t, i, bucketOf(start))
		require.Equal(t, i, bucketOf((start+end)/2))
	}
	require.Equal(t, -1, bucketOf(0))
	require.Equal(t, -1, bucketOf(1e-20))
	require.Equal(t, numBuckets-1, bucketOf(1e300))
	require.Equal(t, numBuckets-1, bucketOf(1<<63*1.9))
}

func TestQuantiles(t *testing.T) {
	g := &group{min: 1, max: 1, positive: make([]uint64, numBuckets)}
	for i := 1; i <= 10_000; i++ {
		g.count++
		g.add(float64(i))
	}
	buckets := g.buckets()
	sum := 0.0
	for i, b := range buckets {
		sum += b[2]
		if i > 0 {
			require.LessOrEqual(t, buckets[i-1][1], b[0])
		}
	}
	require.EqualValues(t, 10_000, sum)
	for q, want := range map[float64]float64{.5: 5000, .9: 9000, .99: 9900, 0: 1, 1: 10_000} {
		require.InEpsilon(t, want, g.quantile(buckets, q), 0.05)
	}
}

// TestGroups: their number, and the length of their keys, are bounded.
func TestGroups(t *testing.T) {
	p := newProvider(t)
	probe := stapsdt.NewProbe1[string](p, "event", "key")
	answer := httptest.NewRecorder()
	inBubble(t, answer, "/events?seconds=1&by=key&provider="+p.Name(), func() {
		probe.Fire(strings.Repeat("é", 1000))
		for i := range 100 {
			probe.Fire(fmt.Sprint(i))
		}
	})
	_, last, _ := strings.Cut(answer.Body.String(), "event: histogram\ndata: ")
	last, _, _ = strings.Cut(last, "\n")
	var c chart
	require.NoError(t, json.Unmarshal([]byte(last), &c))
	require.Len(t, c.Groups, maxGroups)
	require.EqualValues(t, 101-maxGroups, c.Others)
	require.Contains(t, last, `"`+strings.Repeat("é", maxKey/2)+`…"`)
	require.Empty(t, c.Value)
	require.Nil(t, c.Groups[0].Numbers)
}

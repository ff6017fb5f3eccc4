//go:build linux

package main

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
	"github.com/go-stapsdt/stapsdt/proberec"

	"golang.org/x/sys/unix"
)

// inside is a provider whose events the program itself sees. No tracer attaches to it.
type inside struct {
	provider *stapsdt.Provider
	two      *stapsdt.Probe2[uint64, int32]
	text     *stapsdt.Probe2[string, int32]
	time     *stapsdt.Probe2[time.Time, int32]
}

func newInside(name string) inside {
	p := stapsdt.NewProvider(name)
	return inside{
		p, stapsdt.NewProbe2[uint64, int32](p, "two", "id", "status"), stapsdt.NewProbe2[string, int32](p, "text", "path", "status"),
		stapsdt.NewProbe2[time.Time, int32](p, "time", "at", "status"),
	}
}

func (s inside) fireTwo(n int) {
	for i := range n {
		s.two.Fire(uint64(i), 200)
	}
}

func (s inside) fireText(n int) {
	for range n {
		s.text.Fire(path, 200)
	}
}

// fireRequests serves n requests with package httpprobe, whose probes are in the provider of recorded.
func fireRequests(n int) {
	r, err := http.NewRequest(http.MethodGet, "http://localhost/items/7", nil)
	check(err)
	for range n {
		requests.ServeHTTP(discard{}, r)
	}
}

var requests = httpprobe.NewServer(recorded.provider).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

var began = time.Now()

func (s inside) fireTime(n int) {
	for range n {
		s.time.Fire(began, 200)
	}
}

var (
	observed = newInside("observed")
	recorded = newInside("recorded")
	filed    = newInside("filed")
	watched  = newInside("watched")
	insides  = []inside{observed, recorded, filed, watched}
)

// recordingBytes is the size of the recordings, which are in memory and in a file.
const recordingBytes = 16 << 20

var recorders = []*proberec.Recorder{proberec.New(recordingBytes, recorded.provider)}

// statuses keeps the observer from being empty.
var statuses int64

// startInside loads the providers and begins to observe one and to record two others. The first
// row that needs this calls it, because a recorder's memory makes collections of garbage
// rarer, which changes what a load takes.
var startInside = sync.OnceFunc(func() {
	for _, s := range insides {
		check(s.provider.Load())
	}
	observed.provider.Observe(func(e *stapsdt.Event) { statuses += e.Arg(1).Int64() })
	inFile, err := proberec.Create(filepath.Join(os.Getenv("STAPSDT_DIR"), "bench.rec"), recordingBytes, filed.provider)
	check(err)
	recorders = append(recorders, inFile)
	for _, r := range recorders {
		r.Start()
	}
})

func stopInside() {
	for _, r := range recorders {
		check(r.Close())
	}
	runtime.KeepAlive(statuses)
	for _, s := range insides {
		check(s.provider.Close())
	}
}

// seen makes a row of events that the program itself sees.
func seen(fire func(n int)) func(n int) int64 { return afterStart(timed(fire)) }

// seenTogether is seen for two threads that fire at once.
func seenTogether(fire func(n int)) func(n int) int64 {
	return afterStart(func(n int) int64 { return together(2, n, fire) })
}

func afterStart(row func(n int) int64) func(n int) int64 {
	return func(n int) int64 {
		startInside()
		return row(n)
	}
}

// begin is what the clock is read since.
var begin = time.Now()

func readClock(n int) {
	var elapsed time.Duration
	for range n {
		elapsed += time.Since(begin)
	}
	runtime.KeepAlive(elapsed) // or the compiler may remove the readings
}

// getppid makes n system calls that do next to nothing.
func getppid(n int) {
	for range n {
		_, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
}

// fireWatched returns what n fires take while a viewer of package debugprobe has a filter that
// accepts none of them.
func fireWatched(n int) int64 {
	startInside()
	ctx, cancel := context.WithCancel(context.Background())
	query := url.Values{"provider": {"watched"}, "filter": {`status >= 500 && strings.HasPrefix(path, "/api/")`}, "probe": {"text"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/debug/probes/events?"+query.Encode(), nil)
	check(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		debugprobe.Handler().ServeHTTP(discard{}, r)
	}()
	for !watched.text.Enabled() {
		runtime.Gosched()
	}
	took := timed(watched.fireText)(n)
	cancel()
	<-ended
	return took
}

// discard is a connection that accepts everything.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Flush()                      {}

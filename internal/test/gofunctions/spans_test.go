//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanned is a program that handles ten requests for each line. Each call of handle calls pack, which
// panics for the last two, in two goroutines.
const spanned = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync"
)

type request struct { Path string; N int }

var errOdd = errors.New("odd")

//go:noinline
func handle(r *request) (size int, err error) {
	defer func() { if recover() != nil { err = errors.New("a panic") } }()
	size = pack(r.N)
	if r.N%2 == 1 { return 0, errOdd }
	return size, nil
}

//go:noinline
func pack(n int) int {
	if n >= 8 { panic(n) }
	return n + 1
}

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		var all sync.WaitGroup
		for _, path := range []string{"/a", "/b"} {
			all.Add(1)
			go func() {
				for n := range 10 { handle(&request{path, n}) }
				all.Done()
			}()
		}
		all.Wait()
	}
}
`

// collectSpans starts a collector. The function that it returns ends the exporter, and returns its
// spans.
func collectSpans(t *testing.T, rules string) (e *functionExporter, spans func() []*tracepb.Span) {
	received := make(chan *tracepb.Span, 1000)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			return
		}
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body = tracetest.Must(gzip.NewReader(body))(t)
		}
		var request tracecollector.ExportTraceServiceRequest
		assert.NoError(t, proto.Unmarshal(tracetest.Must(io.ReadAll(body))(t), &request))
		for _, of := range request.ResourceSpans {
			assert.Contains(t, fmt.Sprint(of.Resource.Attributes), `string_value:"nested"`)
			for _, s := range of.ScopeSpans[0].Spans {
				received <- s
			}
		}
	}))
	t.Cleanup(collector.Close)
	e = exportFunctions(t, rules, "--otlp", collector.URL)
	return e, func() (all []*tracepb.Span) {
		e.Signal(os.Interrupt)
		require.NoError(t, e.Wait(testenv.Patience), "%s", e.Dump())
		close(received)
		for s := range received {
			all = append(all, s)
		}
		return all
	}
}

// attributes returns the attributes of a span.
func attributes(s *tracepb.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		_, all[a.Key], _ = strings.Cut(fmt.Sprint(a.Value), ":")
	}
	return all
}

// TestExportSpans: each call that returns is a span, whose parent is the call that has called it.
func TestExportSpans(t *testing.T) {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "nested")
	replace(t, build(t, spanned, nil), path)
	p := launch(t, path)
	e, spans := collectSpans(t, `
budget: 100%
spans:
  - {probe: "go:main.*", executable: nested}
`)
	sites := 0
	for _, fn := range p.list("go:main.*") {
		sites += 1 + len(fn.Returns)
	}
	e.waits(map[string]string{`stapsdt_attached_sites{metric="go:main.*"}`: strconv.Itoa(sites)})
	handles(p)
	all := map[string]*tracepb.Span{}
	for _, s := range spans() {
		all[string(s.SpanId)] = s
	}
	calls, results, traces := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, s := range all {
		if s.Name == "main.handle.func1" { // a panic in pack calls it, which has no span
			continue
		}
		by, parent := "", all[string(s.ParentSpanId)]
		if len(s.ParentSpanId) > 0 {
			require.NotNil(t, parent, s.Name)
			assert.Equal(t, parent.TraceId, s.TraceId)
			assert.LessOrEqual(t, parent.StartTimeUnixNano, s.StartTimeUnixNano)
			assert.GreaterOrEqual(t, parent.EndTimeUnixNano, s.EndTimeUnixNano)
			by = parent.Name + " "
		}
		traces[string(s.TraceId)] = true
		calls[by+s.Name]++
		if s.Name == "main.handle" {
			results[attributes(s)["size"]+" "+s.Status.GetMessage()]++
			assert.Equal(t, s.Status != nil, s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR)
		}
	}
	assert.Len(t, traces, 2, "one of each goroutine")
	assert.Equal(t, map[string]int{
		"main.main.func1": 2, "main.main.func1 main.handle": 20,
		"main.handle main.pack": 16, // the panics have no returns
	}, calls)
	assert.Equal(t, map[string]int{
		"1 ": 2, "3 ": 2, "5 ": 2, "7 ": 2,
		`0 *errors.errorString "odd"`: 8, `0 *errors.errorString "a panic"`: 4,
	}, results)
}

// TestExportSpansWhere: conditions are about the arguments of a call and the results of its return.
func TestExportSpansWhere(t *testing.T) {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "nested")
	replace(t, build(t, spanned, nil), path)
	p := launch(t, path)
	e, spans := collectSpans(t, `
budget: 100%
spans:
  - {probe: "go:main.handle", executable: nested, where: 'r.Path == "/b" && failed && r.N < 6 && elapsed < 1h && start.r.N < 6'}
  - {probe: "go:main.pack", executable: nested, where: nothing == 1}
`)
	const handle = `stapsdt_attached_sites{metric="go:main.handle"}`
	sites := 1 + len(p.list("go:main.handle")[0].Returns)
	e.waits(map[string]string{handle: strconv.Itoa(sites), `stapsdt_errors_total{metric="go:main.pack"}`: "1"})
	handles(p)
	n := 0
	for _, s := range spans() {
		n++
		assert.Equal(t, "main.handle", s.Name)
		assert.Equal(t, `*errors.errorString "odd"`, s.Status.GetMessage())
		assert.NotEmpty(t, attributes(s)["r"])
	}
	assert.Equal(t, 3, n)
}

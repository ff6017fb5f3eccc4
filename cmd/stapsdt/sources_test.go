//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"

	"github.com/stretchr/testify/require"
)

// orders fires the events of the tests of sources: four orders, of which the last does not end, and values at the ends of their types.
type orders struct {
	provider *stapsdt.Provider
	start    *stapsdt.Probe3[uint64, uint64, string]
	end      *stapsdt.Probe3[uint64, int32, bool]
	extreme  *stapsdt.Probe4[int64, uint64, float32, time.Duration]
	// pointers has an operation with a pointer: trace -v is not for such probes of most sources.
	pointers  *stapsdt.Provider
	holdStart *stapsdt.Probe3[uint64, uint64, unsafe.Pointer]
	holdEnd   *stapsdt.Probe2[uint64, unsafe.Pointer]
}

func newOrders(t *testing.T) *orders {
	o := &orders{provider: stapsdt.NewProvider("sources")}
	o.start = stapsdt.NewProbe3[uint64, uint64, string](o.provider, "order__start", "id", "parent", "route")
	o.end = stapsdt.NewProbe3[uint64, int32, bool](o.provider, "order__end", "id", "status", "paid")
	o.extreme = stapsdt.NewProbe4[int64, uint64, float32, time.Duration](o.provider, "extreme", "low", "high", "part", "took")
	require.NoError(t, o.provider.Load())
	t.Cleanup(func() { require.NoError(t, o.provider.Close()) })
	o.pointers = stapsdt.NewProvider("pointers")
	o.holdStart = stapsdt.NewProbe3[uint64, uint64, unsafe.Pointer](o.pointers, "hold__start", "id", "parent", "at")
	o.holdEnd = stapsdt.NewProbe2[uint64, unsafe.Pointer](o.pointers, "hold__end", "id", "of")
	require.NoError(t, o.pointers.Load())
	t.Cleanup(func() { require.NoError(t, o.pointers.Close()) })
	return o
}

func (o *orders) fire() {
	for id := range uint64(4) {
		o.start.Fire(id+1, 0, []string{"/a", "/b \"quoted\"\n", "", strings.Repeat("é", 300)}[id])
		if id < 3 {
			o.end.Fire(id+1, 200+int32(id), id == 1)
		}
	}
	o.extreme.Fire(-1<<63, 1<<64-1, -0.5, -time.Nanosecond)
	o.holdStart.Fire(2, 0, unsafe.Pointer(o))
	o.holdStart.Fire(1, 0, unsafe.Pointer(o))
	o.holdEnd.Fire(1, nil)
}

// sharedBuffer takes what a command writes.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *sharedBuffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *sharedBuffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// runSource runs a command until ready, unless it is nil, returns true, lets fire fire, and ends the command. It returns what it wrote.
func runSource(t *testing.T, args []string, ready func(said string) bool, fire func()) (out string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var written, said sharedBuffer
	root := rootCommand(&console.Console{Out: &written, Err: &said})
	root.SetArgs(args)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	if ready != nil {
		require.Eventually(t, func() bool { return ready(said.String()) || len(done) > 0 }, testenv.Patience, time.Millisecond, "%v: %s", args, said.String())
		fire()
		cancel()
	}
	require.NoError(t, <-done, "%v: %s", args, said.String())
	requireObjects(t, args, written.String())
	return written.String()
}

// facts returns the objects of a verb without what differs from run to run: a histogram of an argument does not.
func facts(t *testing.T, verb, out string) (all []string) {
	t.Helper()
	varying := []string{"time", "tid", "goroutine", "comm", "since", "took", "self", "seconds", "start", "process", "executable", "nanoseconds", "own", "rate"}
	if verb != "hist" {
		varying = append(varying, "average", "p50", "p90", "p99", "p999", "max", "sum", "buckets")
	}
	var clean func(v any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range varying {
				delete(v, name)
			}
			if _, isTime := v["longest"].(json.Number); isTime {
				delete(v, "longest")
			}
			for name, one := range v {
				v[name] = clean(one)
			}
		case []any:
			for i := range v {
				v[i] = clean(v[i])
			}
		}
		return v
	}
	for line := range strings.Lines(out) {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var object map[string]any
		require.NoError(t, d.Decode(&object), line)
		b, err := json.Marshal(clean(object))
		require.NoError(t, err)
		all = append(all, string(b))
	}
	return all
}

// announced finds the line that says that probes are watched, which -v writes.
var announced = regexp.MustCompile(`\d probes? of .*; Ctrl-C ends\n`)

// openSources records what fire fires, and lets others watch this process by its socket and by a page until the test ends.
func openSources(t *testing.T, fire func(), providers ...*stapsdt.Provider) (file, page string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("STAPSDT_DIR", dir)
	file = filepath.Join(dir, "recording")
	recorder, err := proberec.Create(file, 1<<20, providers...)
	require.NoError(t, err)
	recorder.Start()
	fire()
	require.NoError(t, recorder.Close())
	listener, err := probesock.Listen()
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	server := httptest.NewServer(debugprobe.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return file, server.URL
}

// TestSources: every verb shows the same of the same events, whichever source delivers them.
func TestSources(t *testing.T) {
	o := newOrders(t)
	file, page := openSources(t, o.fire, o.provider, o.pointers)
	// Each source has the arguments before and after those of the verb. It is live if events have to be fired.
	type source struct {
		before, after []string
		live          bool
	}
	pid := strconv.Itoa(os.Getpid())
	sources := map[string]source{
		"file":   {after: []string{"--from", file}},
		"follow": {after: []string{"--from", file, "--follow", "-d", "1ms"}},
		"page":   {before: []string{page}, after: []string{"-v"}, live: true},
		"socket": {after: []string{"-p", pid, "--via", "socket", "-v"}, live: true},
	}
	if os.Getuid() == 0 {
		sources["kernel"] = source{after: []string{"-p", pid, "--via", "kernel", "-v"}, live: true}
	}
	recorded := filepath.Join(t.TempDir(), "recorded")
	verbs := []struct {
		args []string
		want int // objects
	}{
		{[]string{"trace", "sources:order__end", "-o", "json", "-w", "elapsed >= 0s && route != \"\"", "--show", "id,start.route,status"}, 2},
		{[]string{"count", "sources:order__end", "-o", "json", "--by", "start.route"}, 3},
		{[]string{"hist", "sources:order__end", "elapsed/time.Hour", "-o", "json", "--by", "route,paid"}, 3},
		{[]string{"trace", "sources:*", "-o", "json", "--strlen", "64"}, 8},
		{[]string{"trace", "sources:*", "-o", "json", "--show", "pid"}, 8},
		{[]string{"record", "sources:*", "-O", recorded}, 8},
		{[]string{"count", "sources:*", "-o", "json"}, 3},
		{[]string{"count", "sources:*", "-o", "json", "--by", "id%2 == 0"}, 4},
		{[]string{"hist", "sources:*", "id", "-o", "json"}, 2},
		{[]string{"hist", "sources:*", "id", "-o", "json", "--linear", "1:3:1"}, 2},
		{[]string{"hist", "sources:extreme", "low", "-o", "json", "--by", "part"}, 1},
		{[]string{"hist", "sources:extreme", "high", "-o", "json"}, 1},
		{[]string{"hist", "sources:extreme", "took", "-o", "json"}, 1},
		{[]string{"top", "sources:order", "-o", "json", "-i", "1h"}, 1},
		{[]string{"latency", "sources:order", "-o", "json"}, 2},
		{[]string{"latency", "sources:order", "-o", "json", "-w", "elapsed < 1h", "--by", "elapsed >= 0s"}, 2},
		{[]string{"latency", "sources:order", "-o", "json", "-w", "elapsed > 1h"}, 1},
		{[]string{"tree", "sources:order", "-o", "json", "-w", "elapsed < 1h"}, 3},
		{[]string{"tree", "sources:order", "-o", "json", "-w", "elapsed > 1h"}, 0},
		{[]string{"tree", "sources:order", "-o", "json", "--open"}, 4},
		{[]string{"count", "pointers:*", "-o", "json", "--by", "at"}, 1},
		{[]string{"hist", "pointers:hold__start", "id", "-o", "json", "--by", "arg2"}, 1},
		{[]string{"latency", "pointers:hold", "-o", "json", "--by", "at,of"}, 2},
		{[]string{"top", "pointers:hold", "-o", "json", "-i", "1h", "--by", "of"}, 1},
		{[]string{"tree", "pointers:hold", "-o", "json", "--open"}, 2},
		{[]string{"record", "pointers:*", "-O", recorded}, 3},
	}
	lines := [][]string{{"list"}} // which shows no events
	for _, verb := range verbs {
		lines = append(lines, verb.args)
	}
	requireReaders(t, lines)
	for _, verb := range verbs {
		var want []string
		for _, name := range append([]string{"file"}, slices.Sorted(maps.Keys(sources))...) {
			s := sources[name]
			switch processes := name == "socket" || name == "kernel"; {
			case verb.args[0] == "record" && !processes, verb.args[0] == "top" && name == "follow":
				continue
			}
			args := slices.Concat(verb.args[:1], s.before, verb.args[1:], s.after)
			var ready func(said string) bool
			if s.live {
				ready = announced.MatchString
			}
			out := runSource(t, args, ready, o.fire)
			if verb.args[0] == "record" {
				if verb.args[1] == "sources:*" {
					out = runSource(t, []string{"count", "-o", "json", "--from", recorded, "sources:order__start", "--by", "len(route)"}, nil, nil)
					require.Contains(t, out, `{"len(route)":259}`, "of 600 bytes, 256 and an ellipsis")
				}
				out = runSource(t, []string{"trace", "-o", "json", "--from", recorded}, nil, nil)
			}
			got := facts(t, verb.args[0], out)
			slices.Sort(got)
			if want == nil {
				require.Len(t, got, verb.want, "%v", got)
				want = got
				if strings.HasPrefix(verb.args[1], "pointers") {
					require.Contains(t, strings.Join(got, "\n"), fmt.Sprintf(`"%p"`, o))
				}
			}
			require.Equal(t, want, got, "%s: %v", name, args)
		}
	}
}

package slogprobe

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// These do something when they are formatted, each in a way of its own.
type (
	valuer    struct{ do func() }
	nested    struct{ do func() }
	stringer  struct{ do func() }
	failure   struct{ do func() }
	wrapping  struct{ failure }
	formatter struct{ do func() }
	goer      struct{ do func() }
	asText    struct{ do func() }
	asJSON    struct{ do func() }
	secret    string
)

func (v valuer) LogValue() slog.Value { v.do(); return slog.StringValue("resolved") }
func (v nested) LogValue() slog.Value {
	v.do()
	return slog.GroupValue(slog.Any("in", valuer(v)), slog.Any("text", asText(v)))
}
func (s stringer) String() string              { s.do(); return "string" }
func (f failure) Error() string                { f.do(); return "failure" }
func (w wrapping) Unwrap() error               { w.do(); return w.failure }
func (f formatter) Format(s fmt.State, _ rune) { f.do(); fmt.Fprint(s, "formatted") }
func (g goer) GoString() string                { g.do(); return "go" }
func (m asText) MarshalText() ([]byte, error)  { m.do(); return []byte("text"), nil }
func (m asJSON) MarshalJSON() ([]byte, error)  { m.do(); return []byte(`{"a":1}`), nil }
func (secret) LogValue() slog.Value            { return slog.StringValue("hidden") }

var (
	_ encoding.TextMarshaler = asText{}
	_ json.Marshaler         = asJSON{}
)

// hostile returns values that do something when they are formatted.
func hostile(do func()) []any {
	all := []any{valuer{do}, nested{do}, stringer{do}, failure{do}, wrapping{failure{do}}, formatter{do}, goer{do}, asText{do}, asJSON{do}}
	all = append(all, &valuer{do}, &stringer{do}, &asText{do}, []any{stringer{do}}, map[string]any{"k": stringer{do}}, struct{ V any }{stringer{do}})
	return append(all, slog.GroupValue(slog.Any("v", valuer{do}), slog.Any("s", stringer{do})), fmt.Stringer((*stringer)(nil)))
}

// TestUnwantedValues: whatever a value would do if it were formatted, a record that only a
// tracer sees does not do it.
func TestUnwantedValues(t *testing.T) {
	p, rec := eventtest.Recorded(t, "slogprobe")
	logger := slog.New(New(p).Handler(discarding{}))
	var mu sync.Mutex
	mu.Lock()
	var calls atomic.Int64
	var again func()
	again = func() { // recurses without end if it is formatted
		logger.Debug("again", "v", stringer{again}, "l", valuer{again})
	}
	for _, do := range []func(){
		func() { calls.Add(1) }, mu.Lock, func() { select {} }, func() { panic("hostile") }, runtime.Goexit, again,
	} {
		do := func() { calls.Add(1); do() }
		for _, value := range hostile(do) {
			logger.Debug("m", "v", value)
			logger.With("v", value).WithGroup("g").With("v", value).Info("m", "v", value)
		}
	}
	require.Zero(t, calls.Load())
	require.Len(t, rec.Events(), 2*6*len(hostile(nil)))
	rec.Reset()
	logger.Debug("m", "v", valuer{mu.Lock}, "p", &stringer{}, "l", []int{1}, "s", secret("x"), "g", slog.GroupValue(slog.Any("f", failure{}), slog.Int("n", 1)))
	require.Equal(t, `v=slogprobe.valuer p=*slogprobe.stringer l=[]int s=slogprobe.secret g.f=slogprobe.failure g.n=1`, rec.Events()[0].Arg(3).String())
}

// TestMemory: no memory is read that the program may be writing, and nothing is followed that
// contains itself.
func TestMemory(t *testing.T) {
	p := eventtest.Provider(t, "slogprobe")
	defer p.Observe(func(*stapsdt.Event) {})()
	logger := slog.New(New(p).Handler(discarding{}))
	written, list, number := map[int]int{}, make([]int, 100), new(int)
	var done atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; !done.Load(); i++ {
			written[i%1000], list[i%100], *number = i, i, i
		}
	})
	for range 2000 {
		logger.Debug("m", "map", written, "list", list, "pointer", number, "bytes", struct{ l []int }{list}, slog.Group("g", "map", written))
		logger.With("map", written).Debug("m")
	}
	done.Store(true)
	all.Wait()

	self := map[string]any{}
	self["self"] = self
	loop := []any{nil}
	loop[0] = loop
	type node struct{ next *node }
	ring := &node{}
	ring.next = ring
	inside := make([]slog.Attr, 2)
	inside[0], inside[1] = slog.Any("", slog.GroupValue(inside...)), slog.Any("k", slog.GroupValue(inside...))
	inside[0].Value, inside[1].Value = slog.GroupValue(inside...), slog.GroupValue(inside...)
	logger.Debug("m", "self", self, "loop", loop, "ring", ring, "group", slog.GroupValue(inside...))
	logger.With("group", slog.GroupValue(inside...)).Debug("m")
}

// TestCut: large values cost what a small one does.
func TestCut(t *testing.T) {
	p, rec := eventtest.Recorded(t, "slogprobe")
	logger := slog.New(New(p).Handler(discarding{}))
	large := strings.Repeat("é", 16<<20)
	quoted := "\n" + large
	attrs := make([]slog.Attr, 100_000)
	for i := range attrs {
		attrs[i] = slog.Int("a", 1)
	}
	numbers := make([]int, 10<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		logger.Debug("m", "v", numbers)
		logger.Debug("m", "v", large)
		logger.Debug("m", large, name(large), "quoted", quoted)
		logger.LogAttrs(t.Context(), slog.LevelDebug, "m", slog.GroupAttrs(large, attrs...))
		logger.With("v", large).With(large, 1).WithGroup(large).WithGroup(large).Debug("m", "v", large)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
	require.Equal(t, "v="+strings.Repeat("é", (stapsdt.MaxString-3)/2), rec.Events()[1].Arg(3).String(), "it ends in a whole rune")
	rec.Reset()
	logger.Debug("m", "v", strings.Repeat("\x80", 10_000))
	logger.LogAttrs(t.Context(), slog.LevelDebug, "m", attrs...)
	require.Len(t, rec.Events()[0].Arg(3).String(), stapsdt.MaxString-1)
	require.Len(t, rec.Events()[1].Arg(3).String(), stapsdt.MaxString-1)
}

// messages is a handler that takes records and writes only their messages.
type messages struct{ to io.Writer }

func (m messages) Enabled(context.Context, slog.Level) bool { return true }
func (m messages) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m messages) WithGroup(string) slog.Handler            { return m }
func (m messages) Handle(_ context.Context, r slog.Record) error {
	_, err := fmt.Fprintln(m.to, r.Message)
	return err
}

// typing is a handler that writes the types of what it gets, and resolves what it likes.
type typing struct{ messages }

func (y typing) WithAttrs([]slog.Attr) slog.Handler { return y }
func (y typing) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(y.to, "%s=%T ", a.Key, a.Value.Any())
		return true
	})
	return nil
}

// TestUnchanged: the program's handler does the same without the probe, with it, and while it
// is observed, and nothing else calls the program's values.
func TestUnchanged(t *testing.T) {
	hide := func(groups []string, a slog.Attr) slog.Attr {
		if _, ok := a.Value.Any().(stringer); ok {
			return slog.String(a.Key, "hidden")
		}
		return withoutTime(groups, a)
	}
	options := &slog.HandlerOptions{ReplaceAttr: hide}
	plain := &slog.HandlerOptions{ReplaceAttr: withoutTime}
	for name, next := range map[string]func(io.Writer) slog.Handler{
		"text":     func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, plain) },
		"json":     func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, plain) },
		"replaced": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) },
		"messages": func(w io.Writer) slog.Handler { return messages{w} },
		"types":    func(w io.Writer) slog.Handler { return typing{messages{w}} },
		"nothing":  func(io.Writer) slog.Handler { return discarding{} },
	} {
		run := func(wrap func(slog.Handler) slog.Handler) (written string, calls []string) {
			var to bytes.Buffer
			logger := slog.New(wrap(next(&to)))
			do := func() {
				// The names of the functions say who calls.
				calls = append(calls, caller())
			}
			for _, value := range hostile(do) {
				logger.Debug("m", "v", value)
				logger.Info("m", "v", value, "n", 1)
				logger.With("v", value).Debug("with")
				logger.WithGroup("g").With("v", value, "n", 1).Warn("m", "v", value)
			}
			return to.String(), calls
		}
		p, rec := eventtest.Recorded(t, "slogprobe")
		bare, bareCalls := run(func(h slog.Handler) slog.Handler { return h })
		probes := New(p)
		idle, idleCalls := run(probes.Handler)
		observed, observedCalls := run(probes.Handler)
		require.Equal(t, bare, idle, name)
		require.Equal(t, bare, observed, name)
		require.Equal(t, bareCalls, idleCalls, name)
		shown := false
		for _, e := range rec.Events() {
			text := e.Arg(3).String()
			require.False(t, e.Arg(1).Int64() < 0 && e.Arg(2).String() == "m" && strings.Contains(text, "resolved"), "no handler wants %s", text)
			shown = shown || strings.Contains(text, "v=resolved")
		}
		switch name {
		case "text", "json":
			require.NotEmpty(t, bareCalls)
			require.True(t, shown, name)
			// The handler formats each of these values. The probe may do so once more, but
			// resolves none again.
			require.Equal(t, resolving(bareCalls), resolving(observedCalls), name)
			require.Subset(t, bareCalls, observedCalls, name)
			require.LessOrEqual(t, len(observedCalls), 2*len(bareCalls), name)
		case "replaced":
			require.True(t, shown, name)
			require.Equal(t, bareCalls, observedCalls, name)
		default:
			require.False(t, shown, name)
			require.Equal(t, bareCalls, observedCalls, name)
		}
	}
}

// resolving returns the calls of LogValue.
func resolving(calls []string) (all []string) {
	for _, name := range calls {
		if strings.HasSuffix(name, ".LogValue") {
			all = append(all, name)
		}
	}
	return all
}

// caller returns the name of the method that called the function that calls it.
func caller() string {
	pc, _, _, _ := runtime.Caller(2)
	return runtime.FuncForPC(pc).Name()
}

// blocking is a handler that holds records.
type blocking struct {
	discarding
	wait func()
}

func (blocking) Enabled(context.Context, slog.Level) bool    { return true }
func (b blocking) Handle(context.Context, slog.Record) error { b.wait(); return nil }

// TestInFlight: records that the program's handler holds have no goroutine of ours and keep no memory.
func TestInFlight(t *testing.T) {
	p := eventtest.Provider(t, "slogprobe")
	probes := New(p)
	eventtest.InFlight(t, p, 16, func() func() {
		return eventtest.Held(func(wait func()) {
			slog.New(probes.Handler(blocking{wait: wait})).Info("m", "text", "some text", "v", &struct{ a [10]int }{})
		})
	})
}

// TestLoggerKeepsNothing: a logger does not keep the values of its attributes alive.
func TestLoggerKeepsNothing(t *testing.T) {
	logger := slog.New(New(eventtest.Provider(t, "slogprobe")).Handler(discarding{}))
	freed := make(chan struct{})
	func() {
		value := &struct{ a [100]int }{}
		runtime.AddCleanup(value, func(c chan struct{}) { close(c) }, freed)
		logger = logger.With("v", value, slog.Group("g", "v", value))
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	}, testenv.Patience, time.Millisecond, "a logger keeps no values")
	logger.Info("m")
}

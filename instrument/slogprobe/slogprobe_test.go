package slogprobe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// withoutTime is a ReplaceAttr.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// quiet writes warnings without their time.
func quiet(to *bytes.Buffer) slog.Handler {
	return slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime})
}

// broken panics when it is logged.
type broken struct{}

func (broken) LogValue() slog.Value { panic("broken") }

// log logs records of all kinds.
func log(ctx context.Context, logger *slog.Logger) {
	logger.DebugContext(ctx, "detail", "a", 1, "msg", "mine", "level", "mine")
	child := logger.With("user", "u 1").WithGroup("db").With("rows", 3)
	child.InfoContext(ctx, "query", "text", "SELECT", slog.Group("time", "t", true))
	child.ErrorContext(ctx, "failed", "err", errors.New("no"), "b", broken{})
	logger.Warn("")
}

// TestRecords: tracers see all records, and the program's handler what it sees without them.
func TestRecords(t *testing.T) {
	p := eventtest.Provider(t, "slogprobe")
	var untraced, traced bytes.Buffer
	probes := New(p)
	log(t.Context(), slog.New(probes.Handler(quiet(&untraced))))
	require.Equal(t, 2, strings.Count(untraced.String(), "\n"))
	work := span.NewOperation[struct{}, struct{}](p, "work")
	rec := probetest.Record(t, p)
	logger := slog.New(probes.Handler(quiet(&traced)))
	require.True(t, logger.Enabled(t.Context(), slog.LevelDebug))
	ctx, s := work.Start(t.Context(), struct{}{})
	rec.Reset()
	log(ctx, logger)
	require.Equal(t, untraced.String(), traced.String())
	fire := func(spanID uint64, level int64, message, attributes string) {
		probes.record.Fire(record{Span: spanID, Level: level, Message: message, Attributes: attributes})
	}
	rec.Want(func() {
		fire(s.ID(), -4, "detail", "a=1 msg=mine level=mine")
		fire(s.ID(), 0, "query", `user="u 1" db.rows=3 db.text=SELECT db.time.t=true`)
		fire(s.ID(), 8, "failed", `user="u 1" db.rows=3 db.err=no db.b=slogprobe.broken`)
		fire(0, 4, "", "")
	}, probetest.Ignore("file", "line"))
	e := rec.Events()[0]
	_, file, _, _ := runtime.Caller(0)
	require.Equal(t, file, e.Arg(4).String())
	require.Greater(t, e.Arg(5).Int64(), int64(1))

	rec.Reset()
	h := probes.Handler(quiet(&traced))
	require.NoError(t, h.Handle(nil, slog.Record{Message: "bare", Level: slog.LevelWarn})) //lint:ignore SA1012 nil is a mistake that slog allows
	require.Equal(t, []any{uint64(0), "bare", "", int64(0)}, []any{rec.Events()[0].Arg(0).Any(), rec.Events()[0].Arg(2).Any(), rec.Events()[0].Arg(4).Any(), rec.Events()[0].Arg(5).Any()})
}

// TestIdle: the program's handler decides, and nothing is allocated.
func TestIdle(t *testing.T) {
	var written bytes.Buffer
	logger := slog.New(New(eventtest.Provider(t, "slogprobe")).Handler(quiet(&written)))
	require.False(t, logger.Enabled(t.Context(), slog.LevelInfo))
	require.True(t, logger.Enabled(t.Context(), slog.LevelWarn))
	require.NoError(t, logger.Handler().Handle(t.Context(), slog.Record{Level: slog.LevelInfo})) // made for a tracer that has left
	require.Empty(t, written.String())
	testenv.NotRaced(t, "the detector allocates")
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() { logger.DebugContext(ctx, "detail", "a", 1) }))
}

// TestHandler: the handler does what package slog asks of handlers.
func TestHandler(t *testing.T) {
	for _, traced := range []bool{false, true} {
		p := eventtest.Provider(t, "slogprobe")
		probes := New(p)
		if traced {
			defer p.Observe(func(*stapsdt.Event) {})()
		}
		var written bytes.Buffer
		slogtest.Run(t, func(*testing.T) slog.Handler {
			written.Reset()
			return probes.Handler(slog.NewJSONHandler(&written, nil))
		}, func(t *testing.T) map[string]any {
			all := map[string]any{}
			require.NoError(t, json.Unmarshal(written.Bytes(), &all))
			return all
		})
	}
}

// TestReported: values that need no method of the program are reported as slog.TextHandler
// writes them.
func TestReported(t *testing.T) {
	for _, log := range plainRecords() {
		compare(t, log)
	}
}

// FuzzReported does the same with any names and strings.
func FuzzReported(f *testing.F) {
	f.Add("g", "k", "v")
	f.Add("", "", "")
	f.Add("a.b", "é\u00a0", "\xff\x7f=")
	f.Fuzz(func(t *testing.T, group, key, value string) {
		if len(group)+len(key)+len(value) > 200 {
			t.Skip("the text may be cut")
		}
		compare(t, func(l *slog.Logger) {
			l.With(key, value).WithGroup(group).With(slog.Group(key, group, value)).Error("m", key, name(value), "", slog.GroupValue(slog.String(key, value)))
		})
	})
}

// compare compares what a record of level Error and message m is reported as with what
// slog.TextHandler writes.
func compare(t *testing.T, log func(*slog.Logger)) {
	p, rec := eventtest.Recorded(t, "slogprobe")
	var want bytes.Buffer
	log(slog.New(quiet(&want)))
	log(slog.New(New(p).Handler(discarding{})))
	require.Equal(t, want.String(), strings.TrimSuffix("level=ERROR msg=m "+rec.Events()[0].Arg(3).String(), " ")+"\n")
}

// discarding wants nothing.
type discarding struct{ slog.Handler }

func (discarding) Enabled(context.Context, slog.Level) bool  { return false }
func (d discarding) WithAttrs([]slog.Attr) slog.Handler      { return d }
func (d discarding) WithGroup(string) slog.Handler           { return d }
func (discarding) Handle(context.Context, slog.Record) error { panic("it wants nothing") }

type (
	number int8
	ratio  float32
	name   string
	flag   bool
)

// plainRecords log records that need no method of the program.
func plainRecords() (all []func(*slog.Logger)) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7890123, time.FixedZone("X", 3600))
	wrapped := fmt.Errorf("read a=%d: %w", 1, context.Canceled)
	for _, value := range []any{
		1, int8(-1), uint64(math.MaxUint64), uintptr(7), 1.5, float32(0.1), math.Inf(-1), math.NaN(), true, nil,
		at, at.UTC(), time.Time{}, time.Minute + 3, slog.Value{}, slog.AnyValue(slog.IntValue(2)),
		"", "x", "a b", "a=b", `"`, `\`, "\n", "\x7f", "\x00", "é", "\u00a0", "\u2028", "\ufffd", "\xff", "日本", "\U0001f600", "\u200b",
		number(3), ratio(2.5), name("n m"), name(""), flag(true), complex(1, 2) == 0,
		errors.New("e e"), wrapped, fmt.Errorf("%w and %w", wrapped, wrapped), context.DeadlineExceeded, syscall.ENOENT,
		slog.GroupValue(slog.Int("a", 1), slog.Group("b", "c d", 2), slog.Attr{}), slog.GroupValue(), []slog.Attr{slog.Int("a", 1)},
	} {
		all = append(all,
			func(l *slog.Logger) { l.Error("m", "k", value) },
			func(l *slog.Logger) { l.Error("m", "", value, "a b", value, "", slog.GroupValue(slog.Any("x", value))) },
			func(l *slog.Logger) { l.With("k", value).WithGroup("g").With("", value).Error("m", "k", value) },
			func(l *slog.Logger) { l.WithGroup("g h").WithGroup("i").Error("m", "k", value, slog.Attr{}) },
		)
	}
	return append(all, func(l *slog.Logger) { l.WithGroup("g").With().Error("m") })
}

// hostileContext panics if anything asks it.
type hostileContext struct{}

func (hostileContext) Deadline() (time.Time, bool) { panic("hostile") }
func (hostileContext) Done() <-chan struct{}       { panic("hostile") }
func (hostileContext) Err() error                  { panic("hostile") }
func (hostileContext) Value(any) any               { panic("hostile") }

// TestHostileContext: a record's context is not asked for anything.
func TestHostileContext(t *testing.T) {
	p := eventtest.Provider(t, "slogprobe")
	defer p.Observe(func(*stapsdt.Event) {})()
	logger := slog.New(New(p).Handler(discarding{}))
	logger.DebugContext(hostileContext{}, "m")
	logger.DebugContext((*hostileContext)(nil), "m")
	logger.DebugContext(context.WithValue(hostileContext{}, hostileContext{}, 2), "m")
}

// emptyGroup is a LogValuer that gives an empty group.
type emptyGroup struct{}

func (emptyGroup) LogValue() slog.Value { return slog.GroupValue() }

// TestEmptyGroups: a handler writes the same of LogValuers that give empty groups, whether it is
// traced or not. slog writes a group in JSON that only such ones are in.
func TestEmptyGroups(t *testing.T) {
	run := func(p *stapsdt.Provider) string {
		var out bytes.Buffer
		log := slog.New(New(p).Handler(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
		log.Info("member", slog.Group("g", slog.Any("e", emptyGroup{})))
		log.Info("attribute", "e", emptyGroup{})
		log.WithGroup("g").Info("group", "e", emptyGroup{})
		log.Info("both", slog.Group("g", slog.Any("e", emptyGroup{}), slog.Int("n", 1)))
		return out.String()
	}
	want := run(stapsdt.NewProvider("untraced"))
	require.Contains(t, want, `"g":{}`)
	p := eventtest.Provider(t, "groups")
	r := probetest.Record(t, p)
	require.Equal(t, want, run(p))
	for i, text := range []string{"", "", "", "g.n=1"} {
		require.Equal(t, text, r.Events()[i].Arg(3).String())
	}
}

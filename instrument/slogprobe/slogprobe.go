// Package slogprobe reports the records of log/slog to tracers, including those below the
// level of the logger.
//
//	app := stapsdt.NewProvider("shop")
//	logger := slog.New(slogprobe.New(app).Handler(slog.NewTextHandler(os.Stderr, nil)))
//	err := app.Load()
//
// It defines a probe:
//
//	log__record(span, level, message, attributes, file, line)
//
// span is the id of the span that the record's context belongs to, or 0: see package span.
// level is a slog.Level: -4 is Debug, 0 Info, 4 Warn and 8 Error. attributes are those of the
// record and its logger, as slog.TextHandler writes them. file and line are where the program
// logs; they are empty and 0 if the record does not say.
//
// The probe makes debug logs visible in a program that is running, without a change of its
// configuration: while it is traced, records of every level are reported, and those that the
// program's own handler does not want are still not written. Records that tracers see can
// contain what the program hides with slog.HandlerOptions.ReplaceAttr.
package slogprobe

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

// Probes holds the probe.
type Probes struct {
	record *stapsdt.ProbeOf[record]
}

// record are the arguments of log__record.
type record struct {
	Span       uint64
	Level      int64
	Message    string
	Attributes string
	File       string
	Line       int32
}

// New defines the probe. If the provider already has another of its name, its Load reports
// it. With a nil provider nothing is reported.
func New(p *stapsdt.Provider) *Probes {
	return &Probes{stapsdt.NewProbeOf[record](p, "log__record")}
}

// Handler returns a handler that passes the records on to next, if it wants them, and reports
// all of them. While nothing traces the probe, only next decides which records are made.
func (p *Probes) Handler(next slog.Handler) slog.Handler {
	return &handler{next: next, probes: p}
}

type handler struct {
	next   slog.Handler
	probes *Probes
	with   []func(slog.Handler) slog.Handler // the groups and attributes of the logger
}

// Enabled reports whether the next handler wants records of a level, or the probe is traced.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level) || h.probes.record.Enabled()
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.probes.record.Enabled() {
		h.report(ctx, r)
	}
	if !h.next.Enabled(ctx, r.Level) { // it was made for a tracer, which may have detached
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = slices.Clone(attrs)
	return h.and(h.next.WithAttrs(attrs), func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	return h.and(h.next.WithGroup(name), func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) and(next slog.Handler, with func(slog.Handler) slog.Handler) slog.Handler {
	return &handler{next, h.probes, append(slices.Clip(h.with), with)}
}

// buffers holds the memory for attributes.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// report fires the probe.
func (h *handler) report(ctx context.Context, r slog.Record) {
	text := buffers.Get().(*bytes.Buffer)
	defer func() {
		if text.Cap() <= 16*stapsdt.MaxString { // else it would be kept for one large record
			buffers.Put(text)
		}
	}()
	text.Reset()
	// The handler writes the level and the message first, and the time only if there is one.
	omit := 0
	var to slog.Handler = slog.NewTextHandler(text, &slog.HandlerOptions{Level: r.Level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if omit > 0 {
			omit--
			return slog.Attr{}
		}
		return a
	}})
	for _, with := range h.with {
		to = with(to)
	}
	attributes := slog.NewRecord(time.Time{}, r.Level, r.Message, 0)
	r.Attrs(func(a slog.Attr) bool {
		attributes.AddAttrs(a)
		return true
	})
	omit = 2
	_ = to.Handle(ctx, attributes) // a bytes.Buffer takes it
	event := record{Level: int64(r.Level), Message: r.Message, Attributes: strings.TrimSuffix(text.String(), "\n")}
	if ctx != nil {
		event.Span = span.ID(ctx)
	}
	if r.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		event.File, event.Line = frame.File, int32(frame.Line)
	}
	h.probes.record.Fire(event)
}

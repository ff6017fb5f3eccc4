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
// span is the ID of the span that the record's context belongs to, or 0 if none is reported: see
// package span. level is a slog.Level: -4 is Debug, 0 Info, 4 Warn and 8 Error. attributes are
// the attributes of the record and its logger, as slog.TextHandler writes them, with the
// exceptions below. file and line are the place of the call that logs; they are empty and 0 if
// the record does not have it.
//
// The probe makes debug logs visible in a program that is running, without a change of its
// configuration: while it is traced, records of every level are reported, and those that the
// program's own handler does not want are still not written. Records that tracers see can
// contain what the program hides with slog.HandlerOptions.ReplaceAttr.
//
// # Values
//
// For a record that only a tracer wants, the probe shows a value if its text can be made
// without a method of the program, and without memory that the program could be writing. These
// are
//
//   - strings, booleans, integers, floating-point numbers, times and durations, and values of
//     the program's own types of the first four kinds if these have no methods,
//   - the errors that errors.New and fmt.Errorf return, syscall.Errno, and the errors of
//     package context,
//   - groups of all these, whose attributes slog.GroupValue does not allow to be changed.
//
// Any other value is shown by its type, such as *url.URL, and a slog.LogValuer by its own
// type: formatting it could take a lock that the caller holds, read a map while another
// goroutine writes it, or never end.
//
// For a record that the program's handler wants, the probe shows every value if the handler is a
// *slog.TextHandler or a *slog.JSONHandler without ReplaceAttr, as the handler formats it. A
// slog.LogValuer is resolved once, for the handler and the probe; other methods that format a
// value, such as String and MarshalJSON, are called by each. With ReplaceAttr, which may hide
// values, LogValuers are resolved, and the rule above applies otherwise. It also applies to the
// values of slog.Logger.With, and to other handlers: they may drop, hide or delay a value, and
// could notice that a value was resolved.
//
// The text is cut at stapsdt.MaxString while it is built.
package slogprobe

import (
	"context"
	"log/slog"
	"runtime"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

// Probes holds the probe. [New] makes it: the zero Probes must not be used. Its method, and the
// handlers that it returns, are safe for concurrent use.
type Probes struct {
	record *stapsdt.ProbeOf[record]
}

// record holds the arguments of log__record.
type record struct {
	Span       uint64
	Level      int64
	Message    string
	Attributes string
	File       string
	Line       int32
}

// New defines the probe. If the provider has a probe of this name with other arguments, its Load
// reports it. With a nil provider nothing is reported.
func New(p *stapsdt.Provider) *Probes {
	return &Probes{record: stapsdt.NewProbeOf[record](p, "log__record")}
}

// Handler returns a handler that passes the records that next wants on to it, and reports all of
// them. next must not be nil. While nothing traces the probe, only next decides which records are
// made. next gets what the program has logged, unchanged. Its Enabled is called twice for each
// record: by the logger, and again when the record is handled.
func (p *Probes) Handler(next slog.Handler) slog.Handler {
	return newHandler(next, p, "", "")
}

// handler keeps the text of the program's values, not the values themselves: a logger may
// live long.
type handler struct {
	next       slog.Handler
	probes     *Probes
	attributes string       // the text of the logger's
	groups     string       // the names of the open groups, each with a dot
	known      handlerFacts // of next
}

func newHandler(next slog.Handler, p *Probes, attributes, groups string) *handler {
	return &handler{next, p, attributes, groups, knownOf(next)}
}

// Enabled reports whether the next handler wants records of a level, or the probe is traced.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level) || h.probes.record.Enabled()
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	wanted := h.next.Enabled(ctx, r.Level) // false for a record made only for a tracer
	if h.probes.record.Enabled() {
		var format func(slog.Value) string // shows values by their types
		if wanted && h.known.resolves {
			r = resolveRecord(r)
			if h.known.format != nil {
				format = h.known.format
			}
		}
		h.report(ctx, r, format)
	}
	if !wanted {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.known.resolves { // next resolves them
		attrs, _ = resolveAttrs(attrs)
	}
	all := h.text(nil)
	defer all.free()
	for _, a := range attrs {
		all.attr(a)
	}
	return newHandler(h.next.WithAttrs(attrs), h.probes, all.String(), h.groups)
}

func (h *handler) WithGroup(name string) slog.Handler {
	next := h.next.WithGroup(name)
	if name == "" { // the handler stays as it is
		return newHandler(next, h.probes, h.attributes, h.groups)
	}
	all := h.text(nil)
	defer all.free()
	all.group(name)
	return newHandler(next, h.probes, h.attributes, string(all.prefix))
}

// text returns the text of the logger's attributes attributes, to which others are
// appended.
func (h *handler) text(format func(slog.Value) string) *text {
	return newText(h.attributes, h.groups, format)
}

// report fires the probe.
func (h *handler) report(ctx context.Context, r slog.Record, format func(slog.Value) string) {
	all := h.text(format)
	defer all.free()
	r.Attrs(func(a slog.Attr) bool {
		all.attr(a)
		return !all.full()
	})
	event := record{Level: int64(r.Level), Message: r.Message, Attributes: all.String()}
	if ctx != nil {
		event.Span = span.ID(ctx)
	}
	if r.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		event.File, event.Line = frame.File, int32(frame.Line)
	}
	h.probes.record.Fire(event)
}

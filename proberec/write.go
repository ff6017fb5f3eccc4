package proberec

import (
	"io"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventjson"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/timestamp"
)

// writer writes events as lines of JSON, and counts their bytes.
type writer struct {
	w     io.Writer
	n     int64
	lines []byte
	times timestamp.Formatter
	heads map[*recording.Probe]*eventjson.Head
}

// write writes the events of a recording that are later than all events that were replaced, and not
// later than until, by the recording's clock. Later events are incomplete, because the chunks of
// the shards were copied one after another.
func (w *writer) write(file io.ReaderAt, until uint64) error {
	r, err := recording.NewReader(file)
	if err != nil {
		return err
	}
	if _, err := r.More(); err != nil {
		return err
	}
	for {
		e, err := r.Next()
		if err == io.EOF {
			return w.flush()
		}
		if err != nil {
			return err
		}
		if !r.Whole(e) || e.Ticks > until {
			continue
		}
		w.append(e)
		if len(w.lines) >= 32<<10 {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
}

func (w *writer) append(e *recording.Event) {
	h := w.head(e)
	b := h.Begin(w.lines, &w.times, time.Unix(0, e.Realtime))
	for i, a := range e.Probe.Args {
		if a.Kind == kind.String {
			b = h.Text(b, i, string(e.Text(i)))
		} else {
			b = h.Number(b, i, e.Word(i))
		}
	}
	w.lines = append(b, "}}\n"...)
}

func (w *writer) head(e *recording.Event) *eventjson.Head {
	h := w.heads[e.Probe]
	if h == nil {
		h = eventjson.NewHead(e.Probe, int(e.PID))
		w.heads[e.Probe] = h
	}
	return h
}

func (w *writer) flush() error {
	if len(w.lines) == 0 {
		return nil
	}
	n, err := w.w.Write(w.lines)
	w.n += int64(n)
	w.lines = w.lines[:0]
	return err
}

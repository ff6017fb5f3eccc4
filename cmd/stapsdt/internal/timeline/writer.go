//go:build linux

package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/outfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
)

// writer writes the file. The first error is kept.
type writer struct {
	path  string
	file  io.Closer // nil for standard output
	to    *bufio.Writer
	began bool
	err   error
}

// event is an object of the Trace Event Format. Times are microseconds.
type event struct {
	Name     render.JSONText    `json:"name"`
	Category render.JSONText    `json:"cat,omitempty"`
	Phase    string             `json:"ph"`
	Time     json.Number        `json:"ts,omitempty"`
	Duration json.Number        `json:"dur,omitempty"`
	PID      int                `json:"pid"`
	TID      int                `json:"tid"`
	Scope    string             `json:"s,omitempty"`
	Args     *render.JSONObject `json:"args,omitempty"`
}

// create makes the file.
func create(to *console.Console, path string) (*writer, error) {
	w := &writer{path: path}
	if path == "-" {
		w.to = bufio.NewWriter(to.Out)
	} else {
		f, err := outfile.Create(path, outfile.Timeline)
		if err != nil {
			return nil, fmt.Errorf("-O %w", err)
		}
		w.file, w.to = f, bufio.NewWriter(f)
	}
	_, err := w.to.WriteString(outfile.Timeline)
	w.keep(err)
	return w, w.err
}

// keep keeps the first error.
func (w *writer) keep(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("-O %s: %w", w.path, err)
	}
}

// flush writes the buffered events.
func (w *writer) flush() error {
	w.keep(w.to.Flush())
	return w.err
}

// close closes the file.
func (w *writer) close() error {
	if w.file != nil {
		w.keep(w.file.Close())
	}
	return w.err
}

// micros returns a time in microseconds.
func micros(nanoseconds int64) json.Number {
	sign := ""
	if nanoseconds < 0 {
		sign, nanoseconds = "-", -nanoseconds
	}
	return json.Number(fmt.Sprintf("%s%d.%03d", sign, nanoseconds/1000, nanoseconds%1000))
}

// event writes an event.
func (w *writer) event(e event) {
	b, err := json.Marshal(e)
	w.keep(err)
	if w.began {
		b = append([]byte(",\n"), b...)
	}
	w.began = true
	_, err = w.to.Write(b)
	w.keep(err)
}

// span writes an operation. Its name is PROVIDER:NAME.
func (w *writer) span(name string, process, track int, at, took int64, args []replay.Shown) {
	o := replay.Object(args)
	provider, _, _ := strings.Cut(name, ":")
	w.event(event{
		Name: render.JSONText(name), Category: render.JSONText(provider), Phase: "X", Time: micros(at), Duration: micros(took), PID: process, TID: track, Args: &o,
	})
}

// instant writes an event that takes no time. Its name is PROVIDER:PROBE.
func (w *writer) instant(name string, process, track int, at int64, args []replay.Shown) {
	o := replay.Object(args)
	provider, _, _ := strings.Cut(name, ":")
	w.event(event{
		Name: render.JSONText(name), Category: render.JSONText(provider), Phase: "i", Time: micros(at), PID: process, TID: track, Scope: "t", Args: &o,
	})
}

// process writes the name of the process that is drawn under a number, and thread the name of one of its tracks.
func (w *writer) process(number, pid int, name string) {
	w.metadata("process_name", number, 0, fmt.Sprintf("%s %d", name, pid))
}

func (w *writer) thread(process, track int, name string) {
	w.metadata("thread_name", process, track, name)
}

func (w *writer) metadata(what string, process, track int, name string) {
	o := render.JSONObject{Names: []string{"name"}, Values: []json.RawMessage{render.AppendJSONString(nil, name)}}
	w.event(event{Name: render.JSONText(what), Phase: "M", PID: process, TID: track, Args: &o})
}

// end writes the end of the file, after the events.
func (w *writer) end(first time.Time, lost uint64) error {
	_, err := fmt.Fprintf(w.to, "\n],\"otherData\":{\"start\":%q,\"lost_events\":%d}}\n", first.UTC().Format(time.RFC3339Nano), lost)
	w.keep(err)
	return w.flush()
}

package timeline

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
)

// format encodes a file after its beginning, which is in outfile.Timelines. Times are nanoseconds
// since the first event.
type format interface {
	// process names the process that is drawn under a number, and thread one of its tracks.
	process(number, pid int, name string) []byte
	thread(process, track int, name string) []byte
	// span encodes an operation, and instant an event that takes no time.
	span(m *mark, took int64) []byte
	instant(m *mark) []byte
	// end returns the end of a file with events. first is the time of day of the first one.
	end(first time.Time, lost uint64) []byte
}

// formats are the formats by their names.
var formats = map[string]func() format{
	"chrome":   func() format { return &chrome{} },
	"perfetto": func() format { return perfetto{} },
}

// mark is an operation or an event in a track. Its name is PROVIDER:NAME.
type mark struct {
	name           string
	process, track int
	at             int64
	args           []evaluate.Shown
}

// provider returns the provider, by which viewers group the names.
func (m *mark) provider() string {
	provider, _, _ := strings.Cut(m.name, ":")
	return provider
}

// writer writes the file. The first error is kept.
type writer struct {
	format
	path string
	file io.Closer // nil for standard output
	to   *bufio.Writer
	err  error
}

// create makes the file.
func create(to *console.Console, path, format string) (*writer, error) {
	w := &writer{format: formats[format](), path: path}
	if path == "-" {
		w.to = bufio.NewWriter(to.Out)
	} else {
		file, err := outfile.Create(path, outfile.Timelines[format])
		if err != nil {
			return nil, fmt.Errorf("-O %w", err)
		}
		w.file, w.to = file, bufio.NewWriter(file)
	}
	w.write([]byte(outfile.Timelines[format]))
	return w, w.err
}

func (w *writer) write(b []byte) {
	_, err := w.to.Write(b)
	w.keep(err)
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

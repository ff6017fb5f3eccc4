//go:build linux

package render

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// RemoteEvent is an event of a program that shows its probes itself.
type RemoteEvent struct {
	*remote.Event
	// Program is the name of the program.
	Program string
	// Types are those of the arguments, by their names.
	Types map[string]string
	// TextSize is how many bytes of a text are shown.
	TextSize int
}

// Remote adds an event to what Flush writes.
func (l *Lines) Remote(e *RemoteEvent) {
	if l.JSON {
		l.remoteJSON(e)
		return
	}
	l.head(e.Time.Local(), e.PID, []byte(e.Program), "", e.Provider, e.Probe, len(e.Args) > 0)
	for _, v := range e.Args {
		l.name(v.Name)
		text, cut := e.value(v)
		l.buf = append(l.buf, text...)
		if cut {
			l.buf = append(l.buf, "…"...)
		}
	}
	l.buf = append(l.buf, '\n')
}

// value returns a value for people.
func (e *RemoteEvent) value(v remote.Value) (text string, cut bool) {
	of := e.Types[v.Name]
	switch value := v.V.(type) {
	case string:
		if of != "" && of != "string" { // a pointer, or a number that JSON does not have
			return Printable(value), false
		}
		value, cut := e.cut(value, v.Cut)
		return strconv.Quote(value), cut
	case json.Number:
		if value == "0" && isOperation(&layout.Item{Name: v.Name, Type: expr.Type{Kind: expr.Uint, Size: 8}}) && of == "uint64" {
			return "-", false
		}
		if n, err := value.Int64(); err == nil && of == "time.Duration" {
			return time.Duration(n).String(), false
		}
		return value.String(), false
	case bool:
		return strconv.FormatBool(value), false
	}
	return "<unavailable>", false
}

// cut shortens a text, but not within a character.
func (e *RemoteEvent) cut(text string, already bool) (string, bool) {
	if len(text) <= e.TextSize {
		return text, already
	}
	n := e.TextSize
	for n > 0 && n > e.TextSize-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}

func (l *Lines) remoteJSON(e *RemoteEvent) {
	l.beginJSON(e.Time, e.Provider, e.Probe, uint64(e.PID), -1, []byte(e.Program), "")
	var cuts []string
	for i, v := range e.Args {
		if i > 0 {
			l.buf = append(l.buf, ',')
		}
		l.buf = AppendJSONString(l.buf, v.Name)
		l.buf = append(l.buf, ':')
		text, isText := v.V.(string)
		if !isText {
			scalar, _ := json.Marshal(v.V) // a number as it was sent, a bool, or null
			l.buf = append(l.buf, scalar...)
			continue
		}
		text, cut := e.cut(text, v.Cut)
		l.buf = AppendJSONString(l.buf, text)
		if cut {
			cuts = append(cuts, v.Name)
		}
	}
	l.endJSON(cuts)
}

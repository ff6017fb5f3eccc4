package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of the handler.
const (
	MaxSeconds = 600
	MaxRate    = 1000
	MaxFilter  = 1024 // bytes
	maxText    = 1024 // bytes; the rest is replaced by "…"
)

// Event is an event of a program.
type Event struct {
	Time            time.Time
	Provider, Probe string
	PID             uint32
	Args            Values
}

// Values are the arguments of an event, in their order.
type Values []Value

// Value is an argument. V is a string, a json.Number, a bool or nil.
type Value struct {
	Name string
	V    any
	// Cut means that the program has sent only the beginning of a string.
	Cut bool
}

// Counts counts a stream's events since its beginning.
type Counts struct {
	Dropped, Faults uint64
}

// Message is a message of a stream: an event, the counts, or the end with its reason and the
// counts.
type Message struct {
	Event  *Event
	Counts *Counts
	End    string // "time", "events" or "shutdown"
}

// Stream is a stream of events.
type Stream struct {
	body   io.Closer
	lines  *bufio.Scanner
	cancel context.CancelFunc
	silent *time.Timer
}

// Watch opens a stream. The query has the parameters of package debugprobe.
func (c *Client) Watch(ctx context.Context, query url.Values) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	response, err := c.get(ctx, "events", query)
	if err != nil {
		cancel()
		return nil, err
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		cancel()
		response.Body.Close()
		return nil, c.noHandler(http.StatusNotFound, "another server answered")
	}
	s := &Stream{body: response.Body, lines: bufio.NewScanner(response.Body), cancel: cancel}
	// an event has 12 arguments of at most maxText bytes, escaped
	s.lines.Buffer(make([]byte, 64<<10), 128<<10)
	s.lines.Split(wholeLine)
	s.silent = time.AfterFunc(patience, cancel)
	if !s.lines.Scan() { // the program sends a line when it observes its probes
		s.Close()
		return nil, fmt.Errorf("%s: %w", c.address, ErrGone)
	}
	return s, nil
}

// Close ends the stream.
func (s *Stream) Close() {
	s.silent.Stop()
	s.cancel()
	s.body.Close()
}

// Next waits for the next message. The error wraps ErrGone if the connection has ended.
func (s *Stream) Next() (*Message, error) {
	name := ""
	for s.lines.Scan() {
		s.silent.Reset(patience)
		line := s.lines.Bytes()
		if value, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(value)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		m, err := message(name, data)
		if err != nil {
			return nil, fmt.Errorf("the program has sent a malformed event: %w", err)
		}
		if m != nil {
			return m, nil
		}
		name = ""
	}
	err := s.lines.Err()
	switch {
	case err == nil || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrGone
	case errors.Is(err, context.Canceled):
		return nil, fmt.Errorf("%w: it was silent for %v", ErrGone, patience)
	}
	return nil, fmt.Errorf("%w: %w", ErrGone, err)
}

// wholeLine is bufio.ScanLines without a line that the end of the connection has cut.
func wholeLine(data []byte, _ bool) (advance int, token []byte, err error) {
	return bufio.ScanLines(data, false)
}

// message decodes a message, and returns nil if its kind is unknown.
func message(name string, data []byte) (*Message, error) {
	switch name {
	case "":
		m := &Message{Event: &Event{}}
		return m, json.Unmarshal(data, m.Event)
	case "stats":
		m := &Message{Counts: &Counts{}}
		return m, json.Unmarshal(data, m.Counts)
	case "end":
		var end struct {
			Reason string
			Stats  Counts
		}
		err := json.Unmarshal(data, &end)
		return &Message{End: end.Reason, Counts: &end.Stats}, err
	}
	return nil, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (all *Values) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.New("an event without arguments")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		v := Value{}
		v.Name, _ = name.(string)
		if v.V, err = d.Token(); err != nil {
			return err
		}
		if _, nested := v.V.(json.Delim); nested {
			return fmt.Errorf("the argument %s is not a value", printable(v.Name))
		}
		if text, ok := v.V.(string); ok && len(text) >= maxText && strings.HasSuffix(text, "…") {
			v.V, v.Cut = strings.TrimSuffix(text, "…"), true
		}
		*all = append(*all, v)
	}
	return nil
}

// printable returns text, possibly of several lines, with unprintable characters replaced, so that
// a server cannot control the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

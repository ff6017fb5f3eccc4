//go:build linux

// Package event reads the records of events that BPF programs write, in the order of their times.
package event

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Event is a record of an event. It and its values are valid until the next Read of the
// Stream.
type Event struct {
	// Time is CLOCK_MONOTONIC.
	Time     time.Duration
	ID       uint32 // the ID of the probe
	PID, TID uint32
	raw      []byte
}

// Comm returns the name of the thread.
func (e *Event) Comm() []byte { return cString(e.raw[layout.EventComm:layout.EventMissing]) }

func cString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// Value is a value of an event.
type Value struct {
	Type expr.Type
	// Bits are the bits of a number or a bool, or the address of a string.
	Bits uint64
	Text []byte
	// Cut means that the string is longer.
	Cut bool
	// Struct is the struct to which the value points. It is nil if it could not be read or was
	// not requested. Texts are its strings.
	Struct []byte
	Texts  []Text
	// Missing means that the memory of the value could not be read.
	Missing bool
}

// Text is a string of a struct.
type Text struct {
	Text         []byte
	Cut, Missing bool
}

// Float returns the value of a float.
func (v Value) Float() float64 {
	if v.Type.Size == 4 {
		return float64(math.Float32frombits(uint32(v.Bits)))
	}
	return math.Float64frombits(v.Bits)
}

// Value returns the i-th item of a record.
func (e *Event) Value(items []layout.Item, i int) Value {
	item := &items[i]
	v := Value{Type: item.Type}
	raw := e.raw[item.Offset:][:item.Size]
	v.Missing = binary.NativeEndian.Uint64(e.raw[layout.EventMissing:])>>i&1 != 0
	if item.Unreadable != nil {
		return v
	}
	if v.Missing && item.Type.Kind != expr.String {
		return v
	}
	v.Bits = binary.NativeEndian.Uint64(raw)
	if item.Type.Kind == expr.String && !v.Missing {
		length := int(binary.NativeEndian.Uint64(raw[8:])) // with the NUL
		v.Text = raw[layout.TextHeader:][:min(length, len(raw)-layout.TextHeader)]
		if item.IsGo {
			v.Text = v.Text[:max(len(v.Text)-1, 0)]
		} else {
			v.Text = cString(v.Text)
		}
		if v.Cut = len(v.Text) > item.TextSize; v.Cut {
			v.Text = layout.WholeRunes(v.Text[:item.TextSize])
		}
	}
	if d := item.Details; d != nil && binary.NativeEndian.Uint64(e.raw[d.Offset-8:]) == 0 {
		v.Struct = e.raw[d.Offset:][:d.Size]
		for _, t := range d.Texts {
			v.Texts = append(v.Texts, e.detail(t))
		}
	}
	return v
}

// Second returns the second word of the i-th item of a record. The item must have two words.
func (e *Event) Second(items []layout.Item, i int) uint64 {
	return binary.NativeEndian.Uint64(e.raw[items[i].Offset+8:])
}

func (e *Event) detail(d layout.DetailText) Text {
	length := int64(binary.NativeEndian.Uint64(e.raw[d.Offset-8:]))
	if length < 0 {
		return Text{Missing: true}
	}
	text := e.raw[d.Offset:][:min(length, int64(d.TextSize)+1)]
	if !d.IsGo {
		text = cString(text)
	}
	if len(text) <= d.TextSize {
		return Text{Text: text}
	}
	return Text{Text: layout.WholeRunes(text[:d.TextSize]), Cut: true}
}

// Stream reads events from a ring buffer, in the order of their times.
type Stream struct {
	reader  *ringbuf.Reader
	fd      int
	sizes   func(id uint32) int
	pending []*Event
	free    []*Event
	ready   []*Event
}

// Slack is the maximum delay between an event's time and its appearance in the ring: the program
// takes the time just before it reserves the record, and can be interrupted in between.
const Slack = 10 * time.Millisecond

// NewStream returns a Stream. sizes returns the size of the records of a probe.
func NewStream(ring *ebpf.Map, sizes func(id uint32) int) (*Stream, error) {
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return &Stream{reader: reader, fd: ring.FD(), sizes: sizes}, nil
}

// FD returns a descriptor that is readable when the ring has events.
func (s *Stream) FD() int { return s.fd }

// Waiting reports whether there are events whose order is not certain yet.
func (s *Stream) Waiting() bool { return len(s.pending) > 0 }

// Close closes the stream.
func (s *Stream) Close() error { return s.reader.Close() }

// Read waits for events, at most for the time wait, and returns the events whose order is
// certain. If drain is set, it does not wait, and returns all events.
func (s *Stream) Read(wait time.Duration, drain bool) ([]*Event, error) {
	s.free = append(s.free, s.ready...)
	s.ready = s.ready[:0]
	if len(s.pending) > 0 {
		wait = min(wait, Slack)
	}
	if drain {
		wait = 0
	}
	s.reader.SetDeadline(time.Now().Add(wait))
	// Events that were written before now will have been read when the ring is empty.
	certain := clock.Now() - Slack
	const batch = 4096
	for i := 0; ; i++ {
		if i == batch {
			// The ring is almost in order.
			certain = s.pending[len(s.pending)-1].Time - Slack
			break
		}
		var record ringbuf.Record
		e := s.event()
		record.RawSample = e.raw
		err := s.reader.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.free = append(s.free, e)
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		e.raw = record.RawSample
		if err := s.decode(e); err != nil {
			return nil, err
		}
		s.pending = append(s.pending, e)
		if i == 0 { // wait only for the first event
			s.reader.SetDeadline(time.Unix(1, 0))
		}
	}
	slices.SortStableFunc(s.pending, byTime)
	n := len(s.pending)
	if !drain {
		n, _ = slices.BinarySearchFunc(s.pending, certain, func(e *Event, t time.Duration) int { return cmp.Compare(e.Time, t) })
	}
	s.ready = append(s.ready, s.pending[:n]...)
	s.pending = slices.Delete(s.pending, 0, n)
	return s.ready, nil
}

func byTime(a, b *Event) int { return cmp.Compare(a.Time, b.Time) }

func (s *Stream) event() *Event {
	if n := len(s.free); n > 0 {
		e := s.free[n-1]
		s.free = s.free[:n-1]
		return e
	}
	return new(Event)
}

func (s *Stream) decode(e *Event) error {
	if len(e.raw) >= layout.EventHeader {
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(e.raw[at:]) }
		e.Time = layout.At(word(layout.EventTime))
		e.ID = uint32(word(layout.EventID))
		e.TID, e.PID = uint32(word(layout.EventPID)), uint32(word(layout.EventPID)>>32)
		if len(e.raw) == s.sizes(e.ID) {
			return nil
		}
	}
	return fmt.Errorf("read events: a record has %d bytes", len(e.raw))
}

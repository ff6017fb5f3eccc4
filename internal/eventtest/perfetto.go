package eventtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// Drawn is a slice or an instant of a trace, as Perfetto draws it. An instant takes no time, and cannot contain others.
type Drawn struct {
	Process, Track, Category, Name string
	// Start and End are in nanoseconds of the trace's clock, and End is -1 if the slice has none. Depth is the number of slices around it.
	Start, End int64
	Depth      int
	Instant    bool
	Args       map[string]any
}

// field is a field of a protobuf message: a number, or bytes.
type field struct {
	id    int
	value uint64
	bytes []byte
}

// fields divides a message.
func fields(b []byte) (all []field) {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			panic("a number is cut")
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		tag := number()
		f := field{id: int(tag >> 3)}
		switch tag & 7 {
		case 0:
			f.value = number()
		case 1:
			f.value, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size := number()
			f.bytes, b = b[:size:size], b[size:]
		default:
			panic(fmt.Sprint("wire type ", tag&7))
		}
		all = append(all, f)
	}
	return all
}

// only returns the last field with an ID, as proto2 has it.
func only(message []byte, id int) (last field) {
	for _, f := range fields(message) {
		if f.id == id {
			last = f
		}
	}
	return last
}

func text(f field) string {
	if !utf8.Valid(f.bytes) {
		panic(fmt.Sprintf("%q is not UTF-8", f.bytes))
	}
	return string(f.bytes)
}

// DrawPerfetto draws a trace by the schema in perfetto's protos/perfetto/trace: trace.proto, trace_packet.proto,
// track_event.proto, track_descriptor.proto, process_descriptor.proto, debug_annotation.proto and clock_snapshot.proto. It returns the
// slices and instants in the order of their starts, and the clocks of the snapshot. It panics if the trace is malformed.
func DrawPerfetto(trace []byte) (all []*Drawn, clocks map[uint64]uint64) {
	type track struct {
		name   string
		parent uint64
		open   []*Drawn
	}
	type event struct {
		at   uint64
		body []byte
	}
	tracks, clocks := map[uint64]*track{}, map[uint64]uint64{}
	var events []event
	for _, packet := range fields(trace) {
		if packet.id != 1 || only(packet.bytes, 10).value == 0 {
			panic("a packet without a sequence")
		}
		if d := only(packet.bytes, 60).bytes; d != nil {
			name := text(only(d, 2))
			if process := only(d, 3).bytes; process != nil {
				name = text(only(process, 6))
			}
			uuid := only(d, 1).value
			if tracks[uuid] != nil {
				panic("a track is described twice")
			}
			tracks[uuid] = &track{name: name, parent: only(d, 5).value}
		}
		for _, f := range fields(only(packet.bytes, 6).bytes) {
			clocks[only(f.bytes, 1).value] = only(f.bytes, 2).value
		}
		if e := only(packet.bytes, 11).bytes; e != nil {
			events = append(events, event{only(packet.bytes, 8).value, e})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		t := tracks[only(e.body, 11).value]
		if t == nil {
			panic("an event in a track that was not described")
		}
		switch kind := only(e.body, 9).value; kind {
		case 1, 3:
			d := &Drawn{Track: t.name, Category: text(only(e.body, 22)), Name: text(only(e.body, 23)), Start: int64(e.at), End: -1, Depth: len(t.open), Instant: kind == 3, Args: map[string]any{}}
			if parent := tracks[t.parent]; parent != nil {
				d.Process = parent.name
			}
			for _, f := range fields(e.body) {
				if f.id == 4 {
					d.Args[text(only(f.bytes, 10))] = annotated(f.bytes)
				}
			}
			if all = append(all, d); d.Instant {
				d.End = d.Start
			} else {
				t.open = append(t.open, d)
			}
		case 2:
			if len(t.open) == 0 {
				panic("an end without a beginning")
			}
			t.open[len(t.open)-1].End = int64(e.at)
			t.open = t.open[:len(t.open)-1]
		default:
			panic(fmt.Sprint("event type ", kind))
		}
	}
	return all, clocks
}

// annotated returns the value of a DebugAnnotation.
func annotated(b []byte) any {
	for _, f := range fields(b) {
		switch f.id {
		case 2:
			return f.value == 1
		case 3:
			return f.value
		case 4:
			return int64(f.value)
		case 5:
			return math.Float64frombits(f.value)
		case 6:
			return text(f)
		}
	}
	return nil
}

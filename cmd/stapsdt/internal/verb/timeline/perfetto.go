package timeline

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// perfetto is the format of Perfetto: a protobuf message of packets with descriptors of tracks, and
// with the beginning and the end of each operation.
// https://perfetto.dev/docs/reference/synthetic-track-event
type perfetto struct{}

// The numbers of fields in Perfetto's messages, which are in protos/perfetto/trace.
const (
	tracePacket = 1 // field of Trace

	packetClocks     = 6 // field of TracePacket: a ClockSnapshot
	packetTimestamp  = 8 // in nanoseconds
	packetSequence   = 10
	packetEvent      = 11 // a TrackEvent
	packetDescriptor = 60 // a TrackDescriptor

	clocksClock    = 1 // field of ClockSnapshot: a Clock
	clockID        = 1 // field of Clock
	clockTimestamp = 2

	trackUUID    = 1 // field of TrackDescriptor
	trackName    = 2
	trackProcess = 3 // a ProcessDescriptor
	trackParent  = 5

	processPID  = 1 // field of ProcessDescriptor
	processName = 6

	eventArgument = 4 // field of TrackEvent: a DebugAnnotation
	eventType     = 9
	eventTrack    = 11
	eventCategory = 22
	eventName     = 23

	argumentBool   = 2 // field of DebugAnnotation
	argumentUint   = 3
	argumentInt    = 4
	argumentDouble = 5
	argumentString = 6
	argumentName   = 10
)

// The types of a TrackEvent.
const (
	sliceBegin = 1
	sliceEnd   = 2
	instant    = 3
)

// The clocks of a ClockSnapshot: the clock of the timestamps, and the time of day.
const (
	clockTrace    = 6 // BOOTTIME, which is the default
	clockRealtime = 1
)

// noTrack is the UUID of the track that outfile.Timelines describes. Viewers draw it only if it has
// events.
const noTrack = 1

// message is a protobuf message that is being built.
type message []byte

func (m *message) number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) bytes(field protowire.Number, v []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) text(field protowire.Number, v string) {
	m.bytes(field, []byte(strings.ToValidUTF8(v, "\uFFFD")))
}

// packet encodes a packet of the only sequence. at is the time of an event, or 0 for a description.
func packet(at int64, field protowire.Number, content message) []byte {
	var p, trace message
	p.number(packetTimestamp, uint64(max(at, 0)))
	p.number(packetSequence, 1)
	p.bytes(field, content)
	trace.bytes(tracePacket, p)
	return trace
}

// processUUID and threadUUID return the UUIDs of tracks by their numbers.
func processUUID(number int) uint64 { return 1<<32 | uint64(number) }
func threadUUID(track int) uint64   { return 2<<32 | uint64(track) }

func (perfetto) process(number, pid int, name string) []byte {
	var process, track message
	process.number(processPID, uint64(number))
	process.text(processName, fmt.Sprintf("%s %d", name, pid))
	track.number(trackUUID, processUUID(number))
	track.bytes(trackProcess, process)
	return packet(0, packetDescriptor, track)
}

func (perfetto) thread(process, track int, name string) []byte {
	var t message
	t.number(trackUUID, threadUUID(track))
	t.number(trackParent, processUUID(process))
	t.text(trackName, name)
	return packet(0, packetDescriptor, t)
}

// event encodes an event of a type in a track.
func (m *mark) event(kind uint64, track uint64) message {
	var e message
	e.number(eventType, kind)
	e.number(eventTrack, track)
	e.text(eventCategory, m.provider())
	e.text(eventName, m.name)
	for _, arg := range m.args {
		if arg.JSON != nil {
			var a message
			a.text(argumentName, arg.Name)
			a.value(arg.JSON)
			e.bytes(eventArgument, a)
		}
	}
	return e
}

// value adds the value of an argument.
func (m *message) value(text json.RawMessage) {
	switch string(text) {
	case "true", "false":
		m.number(argumentBool, protowire.EncodeBool(text[0] == 't'))
		return
	}
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		m.number(argumentInt, uint64(v))
	} else if v, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		m.number(argumentUint, v)
	} else if v, err := strconv.ParseFloat(string(text), 64); err == nil {
		*m = protowire.AppendTag(*m, argumentDouble, protowire.Fixed64Type)
		*m = protowire.AppendFixed64(*m, math.Float64bits(v))
	} else {
		s := string(text)
		if text[0] == '"' {
			_ = json.Unmarshal(text, &s)
		}
		m.text(argumentString, s)
	}
}

// span encodes the beginning and the end of an operation. Readers order packets by their times, and
// packets with the same time by their order in the file, where operations are in the order of their
// ends.
func (perfetto) span(m *mark, took int64) []byte {
	var end message
	end.number(eventType, sliceEnd)
	end.number(eventTrack, threadUUID(m.track))
	return append(
		packet(m.at, packetEvent, m.event(sliceBegin, threadUUID(m.track))),
		packet(m.at+took, packetEvent, end)...)
}

func (perfetto) instant(m *mark) []byte {
	return packet(m.at, packetEvent, m.event(instant, threadUUID(m.track)))
}

// end encodes the time of day at the time 0, and the number of lost events.
func (perfetto) end(first time.Time, lost uint64) []byte {
	var clocks message
	for _, clock := range [][2]uint64{{clockTrace, 0}, {clockRealtime, uint64(first.UnixNano())}} {
		var c message
		c.number(clockID, clock[0])
		c.number(clockTimestamp, clock[1])
		clocks.bytes(clocksClock, c)
	}
	var b []byte
	if !first.IsZero() {
		b = packet(0, packetClocks, clocks)
	}
	if lost > 0 {
		m := &mark{name: fmt.Sprintf("stapsdt: %d events lost", lost)}
		b = append(b, packet(0, packetEvent, m.event(instant, noTrack))...)
	}
	return b
}

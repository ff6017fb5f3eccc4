package recording

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Event is an event of a recording. It is valid until the Reader returns the next one.
type Event struct {
	Probe *Probe
	// Number is the probe's number in the table.
	Number uint32
	// Monotonic is the time by CLOCK_MONOTONIC, and Realtime the time of day, in nanoseconds. Both
	// are Bounded.
	Monotonic time.Duration
	Realtime  int64
	// PID is the process. Goroutine is the ID of the goroutine that fired, and TID the
	// thread; one of them is 0, because it is unknown.
	PID       uint32
	TID       uint32
	Goroutine uint64
	// Missing is the number of events missing before this one that no earlier event of Next has
	// counted.
	Missing uint64
	// Executable is the path of the process's program, or "" if it is unknown.
	Executable string
	// Pod names the pod of the process, or is nil if the process is in no pod, or the pod is
	// unknown. Recordings do not have it.
	Pod *Pod
	// Cut has a bit for each text that was cut. Recordings do not have it.
	Cut uint64
	// Unreadable has a bit for each argument that could not be read. Recordings do not have it:
	// there, a text states this, and a number is 0.
	Unreadable uint64

	// Ticks is the time by the recording's clock.
	Ticks uint64
	body  []byte // a word for each argument, and then the texts
}

// The bounds of times, in nanoseconds. Times beyond them come from damaged recordings, not from
// clocks.
const earliest, latest = -1 << 60, 1 << 62

// Bounded limits a time to the years from 1933 to 2116 or, for a clock with another start, to the
// same distances from it. The difference of two such times, and one plus or minus a duration of
// decades, do not overflow.
func Bounded[T ~int64](nanoseconds T) T { return min(max(nanoseconds, earliest), latest) }

// Nanoseconds returns the time of day in nanoseconds, Bounded.
func Nanoseconds(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, earliest)):
		return earliest
	case t.After(time.Unix(0, latest)):
		return latest
	}
	return t.UnixNano()
}

// Pod names a container of a pod, and the workload and the node of the pod.
type Pod struct{ Namespace, Name, Container, Workload, Node string }

// Integer is Word for an argument that is not a float.
func (e *Event) Integer(i int) uint64 { return binary.LittleEndian.Uint64(e.body[8*i:]) }

// Word returns the i-th argument: a number with its sign extended, the bits of a float64, or the
// length of a text.
func (e *Event) Word(i int) uint64 {
	w := e.Integer(i)
	if e.Probe.Args[i].Type == kind.TypeFloat32 {
		return math.Float64bits(float64(math.Float32frombits(uint32(w))))
	}
	return w
}

// Text returns the i-th argument, which is a String.
func (e *Event) Text(i int) []byte {
	start := uint64(8 * len(e.Probe.Args))
	for j, a := range e.Probe.Args[:i] {
		if a.Kind == kind.String {
			start += (binary.LittleEndian.Uint64(e.body[8*j:]) + 8) &^ 7
		}
	}
	return e.body[start:][:binary.LittleEndian.Uint64(e.body[8*i:])]
}

// Reset makes e an event of a probe that is not from a recording. Everything but the arguments is
// copied from head. The arguments are 0 until Set and SetText set them; SetText must set each
// String. The memory of e is reused.
func (e *Event) Reset(p *Probe, head *Event) {
	body := append(e.body[:0], make([]byte, 8*len(p.Args))...)
	*e = *head
	e.Probe, e.Cut, e.Unreadable, e.body = p, 0, 0, body
}

// Extend is Reset for a probe whose first arguments are those of from: e gets their values too.
func (e *Event) Extend(p *Probe, from *Event) {
	n, texts := 8*len(from.Probe.Args), 0
	for i, a := range from.Probe.Args {
		if a.Kind == kind.String {
			texts += int(from.Integer(i)+8) &^ 7
		}
	}
	body := append(e.body[:0], from.body[:n]...)
	body = append(body, make([]byte, 8*len(p.Args)-n)...)
	body = append(body, from.body[n:n+texts]...)
	*e = *from
	e.Probe, e.body = p, body
}

// Set sets the i-th argument, which is not a String, to a word as Word describes it, except that a
// float32 has the bits of a float32.
func (e *Event) Set(i int, word uint64) { binary.LittleEndian.PutUint64(e.body[8*i:], word) }

// SetText sets the i-th argument, which is a String. The Strings before it must have been set.
func (e *Event) SetText(i int, text []byte) {
	e.Set(i, uint64(len(text)))
	e.body = append(e.body, text...)
	e.body = append(e.body, "\x00\x00\x00\x00\x00\x00\x00\x00"[len(text)%8:]...)
}

// record is the beginning of a record.
type record struct {
	size   uint64
	number uint32
	ticks  uint64
	origin uint64
}

// recordAt decodes the beginning of the first record in b, and reports whether b has all of it.
func recordAt(b []byte) (r record, ok bool) {
	if len(b) < RecordHeadBytes {
		return r, false
	}
	le, b0 := binary.LittleEndian, b[:RecordHeadBytes]
	r = record{uint64(le.Uint32(b0)), le.Uint32(b0[4:]), le.Uint64(b0[8:]), le.Uint64(b0[16:])}
	return r, r.size >= RecordHeadBytes && r.size%8 == 0 && r.size <= uint64(len(b))
}

// notRecord returns the error for bytes of which recordAt reports false.
func notRecord(b []byte) error {
	if len(b) < RecordHeadBytes {
		return corrupt("a record has %d bytes", len(b))
	}
	return corrupt("a record has %d bytes, of %d", binary.LittleEndian.Uint32(b), len(b))
}

// reading returns the Reading that the record at the beginning of b is, if it is one.
func (r *record) reading(b []byte) (reading Reading, ok bool) {
	if r.number != ReadingRecord || r.size < RecordHeadBytes+16 {
		return reading, false
	}
	words := b[RecordHeadBytes:]
	le := binary.LittleEndian
	return Reading{r.ticks, int64(le.Uint64(words)), int64(le.Uint64(words[8:]))}, true
}

// wholeRecords returns b up to the first record that is not whole.
func wholeRecords(b []byte) []byte {
	n := uint64(0)
	for {
		r, ok := recordAt(b[n:])
		if !ok {
			return b[:n]
		}
		n += r.size
	}
}

// decode makes e an event of a probe. It checks the body of the record, which holds a word for each
// argument and then the texts, each with a NUL and padded to 8 bytes. The event keeps the body.
func (e *Event) decode(p *Probe, body []byte) error {
	n := 8 * len(p.Args)
	if len(body) < n {
		return corrupt("a record has %d bytes for %d arguments", len(body), len(p.Args))
	}
	e.Probe, e.body = p, body
	room := uint64(len(body) - n)
	for i := range p.Args {
		if p.Args[i].Kind != kind.String {
			continue
		}
		length := binary.LittleEndian.Uint64(body[8*i:])
		if length >= room {
			return corrupt("a text has %d bytes, of %d", length, room)
		}
		room -= (length + 8) &^ 7 // room is a multiple of 8
	}
	return nil
}

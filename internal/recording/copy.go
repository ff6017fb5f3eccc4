package recording

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Target states what Copy does with the events of a probe. The zero value makes Copy end.
type Target struct {
	skips  bool
	number uint32 // the probe's number in the copy
	words  uint64 // the offset after its words in a record, or 0 if Copy ends
	texts  []int  // the offsets of the words that are lengths of texts
}

// Skip lets Copy leave out the events of a probe.
var Skip = Target{skips: true}

// NewTarget lets Copy copy the events of a probe, which has another number in the copy.
func NewTarget(p *Probe, number uint32) Target {
	t := Target{number: number, words: RecordHeadBytes + 8*uint64(len(p.Args))}
	for i, a := range p.Args {
		if a.Kind == kind.String {
			t.texts = append(t.texts, RecordHeadBytes+8*i)
		}
	}
	return t
}

// Copies reports whether Copy copies the events of the probe.
func (t *Target) Copies() bool { return t.words > 0 }

// Destination describes the records that Copy makes. Their clock is CLOCK_MONOTONIC.
type Destination struct {
	// Targets are for the probes, by their numbers.
	Targets []Target
	// TextSize is the length of the longest text that is copied.
	TextSize uint64
	// PID is the process of all events. Threads means that the origin of a record is its process
	// and thread, and not its goroutine.
	PID     uint32
	Threads bool
}

// Origin returns the origin of an event's record.
func (d *Destination) Origin(tid uint32, goroutine uint64) uint64 {
	if d.Threads {
		return uint64(d.PID)<<32 | uint64(tid)
	}
	return goroutine
}

// origins returns the bits that Copy keeps of the origins of a chunk's records: all of a goroutine,
// or a thread.
func (d *Destination) origins(process uint32) uint64 {
	switch {
	case process != 0 && !d.Threads:
		return math.MaxUint64
	case process == 0 && d.Threads:
		return math.MaxUint32
	}
	return 0
}

// Copy copies the events that Next would return to room, as records for another recording, and
// returns their size and number. It ends before an event that has no Target, a text that is too
// long or no room, or that is damaged: Next returns that.
func (r *Reader) Copy(room []byte, to *Destination) (size int, events uint64, err error) {
	if err := r.advance(); err != nil {
		return 0, 0, err
	}
	for len(r.active) > 0 {
		s := r.active[0]
		n, copied, end := r.copyRun(s, room[size:], to)
		size, events = size+n, events+copied
		switch end {
		case runStopped:
			return size, events, nil
		case runOvertaken:
			r.settle()
		case runRead:
			r.taken = true
			if err := r.advance(); err != nil {
				return size, events, err
			}
		}
	}
	return size, events, nil
}

// The reasons for which copyRun ends.
const (
	runStopped   = iota // Copy ends before the shard's next event
	runOvertaken        // another shard has an earlier event
	runRead             // rest has no further event, or a Reading before it
)

// copyRun copies the events of the first active shard that are not later than those of the second.
// rest begins with first, whose size was checked. It is memory of this process alone: the records
// are changed there, and copied together.
func (r *Reader) copyRun(
	s *shard, room []byte, to *Destination,
) (size int, events uint64, end int) {
	limit := uint64(math.MaxUint64)
	if len(r.active) > 1 {
		limit = r.active[1].first.ticks
	}
	own, process, perTick := to.origins(s.at.process), to.Origin(0, 0), 1.0
	if r.head.Clock == Counter {
		perTick = s.perTick
	}
	le, b, rec, last := binary.LittleEndian, s.rest, s.first, r.event.Monotonic
	from, next := 0, 0 // the records that are copied together
	for {
		ns := int64(float64(int64(rec.ticks-s.reading.Ticks)) * perTick)
		ns = Bounded(s.reading.Monotonic + ns)
		if ns > int64(r.until) || int(rec.number) >= len(to.Targets) {
			end = runStopped
			break
		}
		t, after := &to.Targets[rec.number], next+int(rec.size)
		now := inOrder(time.Duration(ns), last)
		if t.skips {
			size += copy(room[size:], b[from:next])
			from = after
		} else {
			fits := rec.size == t.words
			if len(t.texts) > 0 {
				fits = t.endTexts(b[next:after], to.TextSize)
			}
			if !fits || after-from > len(room)-size {
				end = runStopped
				break
			}
			head := b[next:][:RecordHeadBytes]
			le.PutUint32(head[4:], t.number)
			le.PutUint64(head[8:], uint64(now))
			le.PutUint64(head[16:], rec.origin&own|process)
			events++
		}
		next, last = after, now
		s.next++
		if r.hole > 0 {
			r.fillHole(last)
		}
		var ok bool
		if rec, ok = recordAt(b[next:]); !ok || rec.number > maxProbe {
			end = runRead
			break
		}
		if rec.ticks > limit {
			end = runOvertaken
			break
		}
	}
	size += copy(room[size:], b[from:next])
	s.rest, s.first, r.event.Monotonic = b[next:], rec, last
	r.began = r.began || next > 0
	return size, events, end
}

// endTexts reports whether the arguments take all of a record, and no text is too long. It sets the
// bytes after each text to 0.
func (t *Target) endTexts(record []byte, textSize uint64) bool {
	n := t.words
	if n > uint64(len(record)) {
		return false
	}
	for _, i := range t.texts {
		length := binary.LittleEndian.Uint64(record[i:])
		last := n + length&^7 // of the text's bytes, and those after it
		if length > textSize || last+8 > uint64(len(record)) {
			return false
		}
		b := record[last:]
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)&(1<<(length%8*8)-1))
		n = last + 8
	}
	return n == uint64(len(record))
}

package timeline

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// maxTracks is the maximum number of tracks in memory. Beyond it, tracks without an open span are
// removed. They get another number if they have events again.
const maxTracks = 1 << 16

// maxFinished is the maximum number of finished spans that a lane remembers, to tell whether later
// ones lie in them.
const maxFinished = 1000

// maxPID is the largest PID that Linux assigns.
const maxPID = 1 << 22

// tracks holds the tracks of all processes.
type tracks struct {
	writer  *writer
	all     map[place]*track
	numbers map[process]int // the PIDs under which the processes are drawn
	taken   map[int]bool    // these PIDs, including PIDs of processes that have ended
	extra   int             // the last number above maxPID
	last    int             // the last number of a track
}

// process identifies a process with events. Recordings may hold several processes with the same
// PID, from several containers or boots.
type process struct {
	file *replay.File
	pid  uint32
}

// place identifies a track: a goroutine or a thread of a process.
type place struct {
	process        process
	goroutine, tid uint64
}

// track is a goroutine or a thread. Its spans are in the first lane, unless they partly overlap
// others, or begin at the same time: no format can show partly overlapping spans in one track, or
// state which of two is the inner one.
type track struct {
	name    string
	process int // the PID under which it is drawn
	open    int // number of open spans
	lanes   []lane
}

// lane holds the spans that have ended, the earliest first, without spans that lie in another one.
type lane struct {
	number   int // 0 until something is written
	finished []interval
}

type interval struct{ start, end int64 }

// of returns the track of an event.
func (t *tracks) of(e *recording.Event, f *replay.File) *track {
	at := place{process: process{f, e.PID}, goroutine: e.Goroutine}
	name := fmt.Sprintf("goroutine %d", e.Goroutine)
	if e.Goroutine == 0 {
		at.tid, name = uint64(e.TID), fmt.Sprintf("thread %d", e.TID)
	}
	if known := t.all[at]; known != nil {
		return known
	}
	if t.all == nil {
		t.all, t.numbers, t.taken = map[place]*track{}, map[process]int{}, map[int]bool{}
	}
	number := t.process(e, f)
	if len(t.all) >= maxTracks {
		for at, known := range t.all {
			if known.open == 0 {
				delete(t.all, at)
			}
		}
	}
	known := &track{name: name, process: number, lanes: make([]lane, 1)}
	t.all[at] = known
	return known
}

// process returns the number under which the process of an event is drawn, and writes its name. The
// number is the PID, unless another process has that number.
func (t *tracks) process(e *recording.Event, f *replay.File) int {
	of := process{f, e.PID}
	if number, known := t.numbers[of]; known {
		return number
	}
	number := int(e.PID)
	for t.taken[number] {
		t.extra++
		number = maxPID + t.extra
	}
	t.numbers[of], t.taken[number] = number, true
	program := evaluate.Executable(e)
	if f.Process != nil && f.Process.Comm != "" {
		program = f.Process.Comm
	}
	if pod := f.Process.PodName(); pod != "" {
		program += " in " + pod
	}
	t.writer.write(t.writer.process(number, int(e.PID), program))
	return number
}

// number returns the number of a lane, and writes its name.
func (t *tracks) number(of *track, index int) int {
	l := &of.lanes[index]
	if l.number == 0 {
		t.last++
		l.number = t.last
		name := of.name
		if index > 0 {
			name = fmt.Sprintf("%s (%d)", name, index+1)
		}
		t.writer.write(t.writer.thread(of.process, l.number, name))
	}
	return l.number
}

// gone removes the tracks of a process that has ended.
func (t *tracks) gone(f *replay.File) {
	for at := range t.all {
		if at.process.file == f {
			delete(t.all, at)
		}
	}
	for of := range t.numbers {
		if of.file == f {
			delete(t.numbers, of)
		}
	}
}

// lane returns the lane for a span. Spans are added in the order of their ends.
func (t *track) lane(start, end int64) int {
	if t.open == 0 && len(t.lanes) == 1 { // nothing that began earlier can end later
		defer func() { t.lanes[0].finished = nil }()
	}
	for i := range t.lanes {
		if t.lanes[i].add(start, end) {
			return i
		}
	}
	t.lanes = append(t.lanes, lane{finished: []interval{{start, end}}})
	return len(t.lanes) - 1
}

// add adds a span and returns true, unless another span has ended within it but did not begin after
// its beginning.
func (l *lane) add(start, end int64) bool {
	n := len(l.finished)
	for n > 0 && l.finished[n-1].start > start {
		n--
	}
	if n > 0 && l.finished[n-1].end > start {
		return false
	}
	l.finished = append(l.finished[:n], interval{start, end})
	if len(l.finished) > maxFinished { // a span between the first two gets another lane
		l.finished[1].start = l.finished[0].start
		l.finished = append(l.finished[:0], l.finished[1:]...)
	}
	return true
}

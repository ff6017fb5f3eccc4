package stapsdt

import (
	"sync"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/recording/barrier"
)

// observerGoroutines is the set of the goroutines that are in an observer, with their events.
var observerGoroutines goroutines

// goroutines is a set of goroutines. A goroutine adds, finds and removes only itself, so
// that no other can invalidate its entry. It owns an event while it is in the set, which is
// cheaper than an event from a pool.
type goroutines struct {
	buckets [128]bucket
	events  [128][len(bucket{})]Event
	// others are the goroutines that found their bucket full, and count is their number.
	count  atomic.Int64
	mu     sync.Mutex
	others map[uintptr]bool
}

// bucket holds up to 4 goroutines, and 0 in each free slot.
type bucket [4]atomic.Uintptr

// mark is the entry of a goroutine in the set: an event, and the slot that it leaves, or nil if
// the goroutine is in others.
type mark struct {
	event *Event
	slot  *atomic.Uintptr
}

// add adds the calling goroutine. It returns the zero mark if the goroutine is in the
// set.
func (s *goroutines) add(id uintptr) mark {
	i := uint64(id) * 0x9e3779b97f4a7c15 >> 57 // a Fibonacci hash, of 7 bits
	b := &s.buckets[i]
	if b[0].Load() == id || b[1].Load() == id || b[2].Load() == id || b[3].Load() == id {
		return mark{}
	}
	if s.count.Load() > 0 && s.other(id) {
		return mark{}
	}
	for j := range b {
		if b[j].CompareAndSwap(0, id) {
			return mark{&s.events[i][j], &b[j]}
		}
	}
	return s.addOther(id)
}

// addOther adds a goroutine to the others.
func (s *goroutines) addOther(id uintptr) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others == nil {
		s.others = map[uintptr]bool{}
	}
	s.others[id] = true
	s.count.Add(1)
	return mark{new(Event), nil}
}

// other reports whether id is in others.
func (s *goroutines) other(id uintptr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others[id]
}

// remove removes the calling goroutine. An observer that has kept its event finds it empty.
func (s *goroutines) remove(m mark) {
	m.event.probe, m.event.arguments.Texts = nil, nil
	if m.slot != nil {
		barrier.Clear(m.slot)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.others, call.Goroutine())
	if s.count.Add(-1) == 0 {
		s.others = nil // a map keeps the memory of deleted entries
	}
}

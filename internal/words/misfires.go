package words

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Misfires are the functions that hear of a provider's fires whose arguments cannot be words. Such
// a fire is no event, so that no observer sees it. The zero Misfires has none. Its methods are safe
// for concurrent use.
type Misfires struct {
	mu      sync.Mutex
	reports atomic.Pointer[[]*func(error)] // replaced and never changed, with mu held
}

// MisfiresOf returns those of a *stapsdt.Provider, which it keeps alive.
func MisfiresOf(provider unsafe.Pointer) *Misfires {
	// SAFETY: the first field of a Provider is its Misfires, which package stapsdt checks when
	// it is compiled. A pointer to a field keeps the whole alive.
	return (*Misfires)(provider)
}

// Add lets report be called with the error of each such fire, on the goroutine that fires. It may
// still be called while stop is, but no fire that begins later calls it.
func (m *Misfires) Add(report func(error)) (stop func()) {
	added := &report
	m.replace(func(list []*func(error)) []*func(error) { return append(list, added) })
	return func() {
		m.replace(func(list []*func(error)) []*func(error) {
			return slices.DeleteFunc(list, func(r *func(error)) bool { return r == added })
		})
	}
}

// replace replaces the functions by what edit makes of a copy.
func (m *Misfires) replace(edit func([]*func(error)) []*func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := edit(slices.Clone(m.list()))
	m.reports.Store(&list)
}

func (m *Misfires) list() []*func(error) {
	if list := m.reports.Load(); list != nil {
		return *list
	}
	return nil
}

// Report calls the functions.
func (m *Misfires) Report(err error) {
	for _, report := range m.list() {
		(*report)(err)
	}
}

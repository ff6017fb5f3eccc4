package words

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Misfires are the functions that are called for a provider's fires whose arguments cannot be
// words. Such a fire is not an event, so that no observer sees it. The zero Misfires has no
// functions. Its methods are safe for concurrent use.
type Misfires struct {
	mu      sync.Mutex
	reports atomic.Pointer[[]*func(error)] // replaced and never changed, with mu held
}

// MisfiresOf returns the Misfires of a *stapsdt.Provider, which they keep alive.
func MisfiresOf(provider unsafe.Pointer) *Misfires {
	// SAFETY: the first field of a Provider is its Misfires, which package stapsdt checks when
	// it is compiled. A pointer to a field keeps the whole alive.
	return (*Misfires)(provider)
}

// Add makes each such fire call report with its error, on the goroutine that fires. A fire may
// still call report while stop runs, but no fire that begins later does.
func (m *Misfires) Add(report func(error)) (stop func()) {
	added := &report
	m.replace(func(list []*func(error)) []*func(error) { return append(list, added) })
	return func() {
		m.replace(func(list []*func(error)) []*func(error) {
			return slices.DeleteFunc(list, func(r *func(error)) bool { return r == added })
		})
	}
}

// replace replaces the functions by the result of edit, which gets a copy.
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

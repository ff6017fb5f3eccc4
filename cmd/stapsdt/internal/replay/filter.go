//go:build linux

package replay

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Filter selects events of a probe.
type Filter struct {
	// Selected means that the filter selects any events.
	Selected bool
	where    *Measure // or nil
	faults   *uint64  // counts the events for which where could not be evaluated
}

// filter returns the filter of a probe.
func (f *File) filter(s *Source, number uint32) *Filter {
	for len(f.filters) <= int(number) {
		f.filters = append(f.filters, nil)
	}
	known := f.filters[number]
	if known == nil {
		known = s.NewFilter(f.Probes()[number])
		f.filters[number] = known
	}
	return known
}

// NewFilter returns the filter of a probe. The next Begin reports the probe if it is unfit.
func (s *Source) NewFilter(p *recording.Probe) *Filter {
	f := &Filter{Selected: s.Selects(p.Provider, p.Name), faults: &s.Faults}
	if !f.Selected {
		return f
	}
	s.selected++
	var err error
	if s.where != "" {
		f.where, err = NewMeasure(p, bpf.Counting{Where: s.where})
	}
	if err == nil && s.fits != nil {
		err = s.fits(p)
	}
	if err != nil {
		*f = Filter{}
		s.unfit.Add(err)
	}
	return f
}

// Unfit returns why the first unfit probe is left out, or nil if none is.
func (s *Source) Unfit() error { return s.unfit.Err() }

// Matches reports whether an event of the probe is selected.
func (f *Filter) Matches(e *recording.Event) bool {
	if f.where == nil || !f.Selected {
		return f.Selected
	}
	match, fault := f.where.Take(e)
	if fault {
		*f.faults++
	}
	return match
}

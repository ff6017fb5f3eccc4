package replay

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Filter selects events of a probe.
type Filter struct {
	// Selected means that the filter selects any events.
	Selected bool
	where    *evaluate.Measure // nil if there is no condition
	faults   *uint64           // counts the events for which where could not be evaluated
}

// filter returns the filter of a probe.
func (f *File) filter(r *Reader, number uint32) *Filter {
	for len(f.filters) <= int(number) {
		f.filters = append(f.filters, nil)
	}
	known := f.filters[number]
	if known == nil {
		known = r.NewFilter(f.Probes()[number])
		f.filters[number] = known
	}
	return known
}

// NewFilter returns the filter of a probe. The next Begin reports the probe if it is unfit.
func (r *Reader) NewFilter(p *recording.Probe) *Filter {
	f := &Filter{Selected: r.Selects(p.Provider, p.Name), faults: &r.Faults}
	if !f.Selected {
		return f
	}
	r.selected++
	var err error
	if r.where != "" {
		f.where, err = evaluate.NewMeasure(p, query.Counting{Where: r.where})
	}
	if err == nil && r.fits != nil {
		err = r.fits(p)
	}
	if err != nil {
		*f = Filter{}
		r.unfit.Add(err)
	}
	return f
}

// Unfit returns the reason why the first unfit probe is left out, or nil if there is
// none.
func (r *Reader) Unfit() error { return r.unfit.Err() }

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

package replay

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Filter selects events of a probe.
type Filter struct {
	// Selected means that the filter selects any events.
	Selected bool
	// Probe is the probe of the events that are selected: one that a Pairing has completed, or the
	// filter's own.
	Probe *recording.Probe
	// Ends are the completed probes of the operations that the events start, if a Pairing takes
	// them for these.
	Ends []*recording.Probe
	// Sides are the probes of the other sides of the operations, if a Pairing takes the events.
	Sides  []*recording.Probe
	paired bool              // a Pairing takes all events
	where  *evaluate.Measure // nil if there is no condition
	faults *uint64           // counts the events for which where could not be evaluated
}

// filter returns the filter of a probe.
func (f *File) filter(r *Reader, number uint32) *Filter {
	if r.Pairing != nil {
		f.choose(r)
	}
	for len(f.filters) <= int(number) {
		f.filters = append(f.filters, nil)
	}
	known := f.filters[number]
	if known == nil {
		known = r.NewFilter(f.Probes()[number], nil)
		f.filters[number] = known
	}
	return known
}

// NewFilter returns the filter of a probe. all are the probes of its program, for a Pairing. The
// next Begin reports the probe if it is unfit.
func (r *Reader) NewFilter(p *recording.Probe, all []*recording.Probe) *Filter {
	f, err := r.choose(p, all)
	if f.Selected || err != nil {
		r.selected++
	}
	if err != nil {
		r.unfit.Add(err)
	}
	return f
}

// choose is NewFilter for a probe that is not counted. It returns an error if the probe is unfit.
func (r *Reader) choose(p *recording.Probe, all []*recording.Probe) (f *Filter, err error) {
	f = &Filter{Selected: r.Selects(p.Provider, p.Name), Probe: p, faults: &r.Faults}
	if r.Pairing != nil {
		r.pair(f, p, all)
	}
	if f.Selected {
		if f.where, err = r.fit(f.Probe); err != nil {
			*f = Filter{Probe: p, Ends: f.Ends, Sides: f.Sides, paired: len(f.Ends) > 0}
			err = r.Explain(err, p, all)
		}
	}
	if f.paired {
		if r.paired == nil {
			r.paired = map[*recording.Probe]*Filter{}
		}
		r.paired[p] = f
	}
	return f, err
}

// Unfit returns the reason why the first unfit probe is left out, or nil if there is
// none.
func (r *Reader) Unfit() error { return r.unfit.Err() }

// Takes reports whether the reader delivers an event of the filter's probe, because it is selected
// or a Pairing takes it.
func (f *Filter) Takes(e *recording.Event) bool { return f.paired || f.Matches(e) }

// Matches reports whether an event of Probe is selected.
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

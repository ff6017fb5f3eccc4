package replay

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Pairing gives the ends of operations values of their starts. all are the probes of a program. Any
// goroutine may call its methods.
type Pairing interface {
	// Complete returns the probe of the ends that have the values, or p if its events stay as they
	// are.
	Complete(p *recording.Probe, all []*recording.Probe) *recording.Probe
	// Sides returns the probes among all that end the operations that p starts, or start those that
	// it ends.
	Sides(p *recording.Probe, all []*recording.Probe) []*recording.Probe
	// Explain adds to the error of an expression why p lacks a value of a start.
	Explain(err error, p *recording.Probe, all []*recording.Probe) error
}

// Complete is Pairing.Complete. It returns p if there is no Pairing.
func (r *Reader) Complete(p *recording.Probe, all []*recording.Probe) *recording.Probe {
	if r.Pairing == nil {
		return p
	}
	return r.Pairing.Complete(p, all)
}

// Explain is Pairing.Explain. It returns err if there is no Pairing.
func (r *Reader) Explain(err error, p *recording.Probe, all []*recording.Probe) error {
	if r.Pairing == nil || err == nil {
		return err
	}
	return r.Pairing.Explain(err, p, all)
}

// Paired returns the filter of a probe if the Pairing takes its events, or nil.
func (r *Reader) Paired(p *recording.Probe) *Filter { return r.paired[p] }

// Pairs reports whether the Pairing takes the events of any probe. Their order then matters.
func (r *Reader) Pairs() bool { return len(r.paired) > 0 }

// Begun reports whether an event belongs to the window. The reader also delivers earlier events
// that a Pairing takes.
func (r *Reader) Begun(e *recording.Event) bool { return e.Realtime >= r.window.since }

// IsUnordered reports whether the order of events does not matter, because a Taker takes them.
func (r *Reader) IsUnordered() bool {
	if r.Pairs() {
		r.Taker = nil
	}
	return r.Taker != nil
}

// pair sets what a Pairing does with the events of a filter.
func (r *Reader) pair(f *Filter, p *recording.Probe, all []*recording.Probe) {
	if f.Selected {
		f.Probe = r.Pairing.Complete(p, all)
	}
	sides := r.Pairing.Sides(p, all)
	for _, end := range sides {
		if !r.Selects(end.Provider, end.Name) {
			continue
		}
		completed := r.Pairing.Complete(end, all)
		if _, err := r.fit(completed); err == nil && completed != end {
			f.Ends = append(f.Ends, completed)
		}
	}
	if f.paired = f.Probe != p || len(f.Ends) > 0; f.paired {
		f.Sides = sides
	}
}

// fit returns the condition for the events of a probe, or nil if there is none. It is an error if
// the probe lacks something that the condition or the command uses.
func (r *Reader) fit(p *recording.Probe) (where *evaluate.Measure, err error) {
	if r.where != "" {
		where, err = evaluate.NewMeasure(p, query.Counting{Where: r.where})
	}
	if err == nil && r.fits != nil {
		err = r.fits(p)
	}
	return where, err
}

// choose makes the filters of the probes that were added to the table, for a Pairing. A probe that
// was there before can be the other side of a new one.
func (f *File) choose(r *Reader) {
	all := f.Probes()
	if r.Pairing == nil || len(f.filters) == len(all) {
		return
	}
	if f.Process != nil {
		all = slices.Concat(all, f.Process.Probes)
	}
	for i, p := range f.Probes() {
		if i >= len(f.filters) {
			f.filters = append(f.filters, r.NewFilter(p, all))
			continue
		}
		if f.filters[i].paired {
			continue
		}
		if again, err := r.choose(p, all); err == nil && again.paired {
			f.filters[i] = again
		}
	}
}

// unpair removes what Paired returns for a file.
func (r *Reader) unpair(f *File) {
	for _, p := range f.Probes() {
		delete(r.paired, p)
	}
}

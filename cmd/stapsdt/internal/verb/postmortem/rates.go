package postmortem

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// rates counts operations and events in two parts of the time: the last minute, and the time
// before. Of a recording of less than two minutes, each is a half.
type rates struct {
	first, edge, last int64 // by CLOCK_REALTIME
	operations        map[*pairing.Kind]*rate
	probes            map[*recording.Probe]*rate
}

// rate counts the operations of a kind, or the events of a probe.
type rate struct {
	name  string
	parts [2]part // before the last minute, and in it
}

// part counts what has ended in a part of the time.
type part struct {
	count, errors uint64
	took          query.Tallies // durations by the buckets of query.Powers; nil for events
}

func newRates(last int64) *rates {
	return &rates{
		last: last, operations: map[*pairing.Kind]*rate{}, probes: map[*recording.Probe]*rate{},
	}
}

// begin divides the time from the first event until the last.
func (r *rates) begin(first int64) {
	r.first, r.last = first, max(first, r.last)
	r.edge = r.last - min(int64(time.Minute), (r.last-first)/2)
}

// part returns the index of the part of the time to which an event belongs.
func (r *rates) part(e *recording.Event) int {
	if e.Realtime < r.edge {
		return 0
	}
	return 1
}

// seconds returns the lengths of the parts.
func (r *rates) seconds() [2]float64 {
	return [2]float64{
		time.Duration(r.edge - r.first).Seconds(), time.Duration(r.last - r.edge).Seconds(),
	}
}

// probe counts an event of a probe.
func (r *rates) probe(e *recording.Event, failed bool) {
	one := r.probes[e.Probe]
	if one == nil {
		one = &rate{name: e.Probe.Provider + ":" + e.Probe.Name}
		r.probes[e.Probe] = one
	}
	one.parts[r.part(e)].add(failed)
}

// operation counts an operation that has ended.
func (r *rates) operation(ended *pairing.Ended, e *recording.Event, failed bool) {
	of := ended.Start.Kind
	one := r.operations[of]
	if one == nil {
		one = &rate{name: of.Name}
		r.operations[of] = one
	}
	p := &one.parts[r.part(e)]
	if p.add(failed); p.took == nil {
		p.took = query.Tallies{}
	}
	took := uint64(ended.Took)
	p.took.Of(query.Powers{}.Of(query.Elapsed, took)).Add(query.Elapsed, took)
}

func (p *part) add(failed bool) {
	if p.count++; failed {
		p.errors++
	}
}

// histogram returns the durations, or nil if there are none.
func (p *part) histogram() *render.Histogram {
	if len(p.took) == 0 {
		return nil
	}
	return render.NewHistogram(query.Elapsed, query.Powers{}, p.took)
}

// all returns the rates of the operations, and those of the probes that belong to none, each with
// the most frequent first.
func (r *rates) all(kinds []*pairing.Kind) (all []*rate) {
	paired := map[string]bool{}
	for _, k := range kinds {
		paired[k.Name] = true
	}
	for _, one := range r.operations {
		all = append(all, one)
	}
	slices.SortFunc(all, compareRates)
	var plain []*rate
	for p, one := range r.probes {
		if name, _ := spec.NameOf(p.Name); name == "" || !paired[p.Provider+":"+name] {
			plain = append(plain, one)
		}
	}
	slices.SortFunc(plain, compareRates)
	return append(all, plain...)
}

func compareRates(a, b *rate) int {
	return cmp.Or(-cmp.Compare(a.count(), b.count()), cmp.Compare(a.name, b.name))
}

func (r *rate) count() uint64 { return r.parts[0].count + r.parts[1].count }

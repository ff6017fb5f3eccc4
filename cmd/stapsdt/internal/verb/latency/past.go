//go:build linux

package latency

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/past"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// seeds are the operations that the recordings of processes had open when the kernel began to pair
// events. The kernel ends them like others.
type seeds struct {
	t     *traced
	kinds map[uint32]uint64 // counts the seeds by kind
	// files stand for the processes: they tell which seeds may have ended.
	files map[int]*replay.File
}

// begin adds the operations that the recording of a process had open when the kernel was
// attached.
func (s *seeds) begin(pid int, from *past.Reader) {
	if s.t.run.Env.Namespace != nil || s.t.operations.Plan == nil {
		from.Unknown()
		return
	}
	f := replay.NewFile(&replay.Process{PID: pid})
	from.Read(pid, from.Attached, f, s.starts, func(r *past.Recording) error {
		return s.read(r, from.Attached, f)
	})
}

// read adds the operations that a recording had open at a time, when the kernel was attached. An
// operation that starts later is seen by the kernel, and so is an end that comes after its start
// was added. An end between the two is in the recording. It returns an error if an operation may be
// missing.
func (s *seeds) read(r *past.Recording, attached time.Duration, f *replay.File) error {
	pairs, err := s.pairs(r.Probes())
	if err != nil {
		return err
	}
	s.files[f.Process.PID] = f
	add := func(e *recording.Event) error { pairs.Add(e, f); return nil }
	missing := r.Each(attached, add)
	open := map[*pairing.Operation]*layout.Open{}
	for _, o := range pairs.Open.All() {
		one, err := s.add(o)
		open[o], missing = one, cmp.Or(missing, err)
	}
	err = r.Each(clock.Now(), func(e *recording.Event) error {
		if o := pairs.Add(e, f); o.HasEnded && open[o.Ended.Start] != nil {
			return s.remove(open[o.Ended.Start])
		}
		return nil
	})
	return cmp.Or(missing, err)
}

// errValues means that the kernel cannot hold the values of an operation.
var errValues = errors.New("the values do not fit")

// starts returns the names of the probes that start operations.
func (s *seeds) starts() (names []string) {
	for _, kind := range s.t.latency.kinds.all {
		names = append(names, kind.start)
	}
	return names
}

// pairs returns the Pairs that pairs recorded events as the kernel does.
func (s *seeds) pairs(all []*recording.Probe) (*pairing.Pairs, error) {
	l := s.t.latency
	known := kinds{l.pairs, slices.Clone(l.kinds.all)}
	var sides []pairing.Side
	for _, p := range all {
		if !l.pairs.start.Match(p.Provider, p.Name) && !l.pairs.end.Match(p.Provider, p.Name) {
			continue
		}
		isStart, err := l.pairs.isStart(p.Provider, p.Name)
		if err != nil {
			return nil, err
		}
		kind, err := known.find(p.Provider+":"+p.Name, isStart)
		if err != nil {
			return nil, err
		}
		if s.t.plans[kind] != nil {
			sides = append(sides, pairing.Side{Probe: p, Kind: int(kind), IsStart: isStart})
		}
	}
	plan := pairing.Plan{Pairing: s.t.pairing(), All: true, Unfit: &query.Unfit{}}
	return pairing.NewPairs(plan, sides)
}

// add adds an open operation. It returns errValues if the kernel cannot hold its values.
func (s *seeds) add(o *pairing.Operation) (*layout.Open, error) {
	kind, tables := uint32(o.Kind.Number), s.t.operations.Tables
	plan, one := s.t.plans[kind], layout.NewOpen(tables.Open)
	one.Kind, one.PID, one.TID = kind, int(o.PID), int(o.TID)
	if o.Selected() {
		one.Since = o.Since
	}
	if !putKey(plan, o, one) || !put(plan, o, one) {
		return nil, errValues
	}
	added, err := one.Insert(tables.Open)
	if added && o.Selected() {
		s.kinds[one.Kind]++
	}
	return one, err
}

// putKey stores the key of an operation, and reports whether it is known completely.
func putKey(plan *bpf.Latency, o *pairing.Operation, to *layout.Open) bool {
	for i := range plan.Key {
		v := &o.Key[i]
		if v.Cut || !plan.Key[i].Put(to.Key, v.Bits, v.Text) {
			return false
		}
	}
	return true
}

// put stores the values of an operation, and reports whether all were stored that By needs.
func put(plan *bpf.Latency, o *pairing.Operation, to *layout.Open) bool {
	for i := range plan.Open {
		item := &plan.Open[i]
		at := slices.Index(o.Columns.Names, item.Name)
		if at >= 0 && at < len(o.Details) {
			v := &o.Details[at]
			same := v.Item != nil && !v.Missing && v.Item.Type.Kind == item.Type.Kind
			if same && item.Put(to.Value, v.Bits, v.Text) {
				to.SetKnown(i)
				continue
			}
		}
		if i < plan.OpenBy {
			return false
		}
	}
	return true
}

// remove removes a seed that has ended before it was added.
func (s *seeds) remove(one *layout.Open) error {
	removed, err := one.Remove(s.t.operations.Tables.Open)
	if removed && one.Since != 0 {
		s.kinds[one.Kind]--
	}
	return err
}

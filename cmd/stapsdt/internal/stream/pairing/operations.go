package pairing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Operations pairs the events of all operations: NAME__start with NAME__end or NAME__done, and the
// lines of Lines.
type Operations struct {
	// Key has the parts that pair the events of kinds that have them. Without it, the first
	// argument pairs events.
	Key []string
	// Lines are operations that lines start and end. They need a Key.
	Lines []spec.LinePair
	// Where and By apply to each kind of operation that has their variables. All is as in Plan.
	Where, By []string
	All       bool
	// Bare keeps no details of open operations.
	Bare bool
	// Early is the number of ends without starts that are not reported.
	Early uint64
	Pairs

	named map[string]*Kind
	over  uint64 // counts the probes of kinds for which there was no room
}

// OperationSpecs returns the specs of the probes of the operations with some names.
func OperationSpecs(names []spec.Choice) (specs []spec.Choice, err error) {
	for _, name := range names {
		if operation, _ := spec.NameOf(name.Probe); operation != "" {
			operation = strings.TrimSuffix(name.String(), name.Probe) + operation
			return nil, query.Usagef("%v names a probe of an operation: give %s", name, operation)
		}
		end, other := name.Suffixed(spec.EndSuffixes[0]), name.Suffixed(spec.EndSuffixes[1])
		specs = append(specs, spec.Choice{Spec: name.Suffixed(spec.StartSuffix)},
			spec.Choice{Spec: end, Other: other})
	}
	return specs, nil
}

// Kinds returns the kinds that have both a start and an end.
func (o *Operations) Kinds() (all []*Kind) {
	for _, k := range o.kinds {
		if k.isPaired {
			all = append(all, k)
		}
	}
	return all
}

// Know adds a probe, unless it is known.
func (o *Operations) Know(p *recording.Probe) {
	if o.Knows(p) {
		return
	}
	if o.sides == nil {
		o.sides, o.named = map[*recording.Probe]*side{}, map[string]*Kind{}
	}
	o.Ignore(p)
	name, isStart := o.nameOf(p)
	if name == "" || len(p.Args) == 0 && len(o.Key) == 0 {
		return
	}
	k := o.named[name]
	if k == nil && len(o.kinds) == query.MaxKinds {
		o.over++
		return
	}
	if k == nil {
		k = o.kind(len(o.kinds))
		k.Name, o.named[name] = name, k
	}
	s := o.newSide(Side{p, k.Number, isStart})
	o.sides[p] = s
	s.count(slices.Concat(o.Key, o.Where))
	first, open := &k.first[s.which()], !k.isPaired || k.unfit != nil
	if open && s.known > (*first).known { // a program of another version lacks more
		*first = s
	}
	switch {
	case k.isPaired && *first != s:
		o.join(s)
	case slices.Contains(k.first[:], s) && !slices.Contains(k.first[:], nil):
		o.pair(k)
	}
}

// nameOf returns the name of the operation that a probe starts or ends, or "".
func (o *Operations) nameOf(p *recording.Probe) (name string, isStart bool) {
	for i := range o.Lines {
		if is, isStart := o.Lines[i].Is(p.Provider, p.Name); is {
			return o.Lines[i].String(), isStart
		}
	}
	if name, isStart = spec.NameOf(p.Name); name != "" {
		name = p.Provider + ":" + name
	}
	return name, isStart
}

// join adds another start or end to a kind whose events are paired.
func (o *Operations) join(s *side) {
	if o.add(s) != nil {
		o.Ignore(s.Probe) // the arguments may differ in another program
	}
}

// pair begins to pair the events of a kind, whose start and end are known. It begins again for a
// kind that did not fit, of which no operation was selected.
func (o *Operations) pair(k *Kind) {
	start, end := k.first[0], k.first[1]
	k.isPaired, k.unfit, k.By, k.Columns, k.columns = false, o.keyErr(k), nil, nil, nil
	has := func(src string) bool { return start.Has(src) || end.Has(src) }
	asked := query.Pairing{Key: []string{"arg0"}, Details: true}
	if k.Fits() && len(o.Key) > 0 {
		asked.Key = o.Key
	}
	plan := Plan{Pairing: asked, TextSize: evaluate.TextSize, All: o.All}
	for _, src := range o.Where {
		if k.unfit == nil && !has(src) {
			_, k.unfit = end.Parse(src)
		}
	}
	if k.Fits() {
		plan.Where = o.Where
	}
	columns := 0
	for i, src := range o.By {
		if !has(src) {
			continue
		}
		column := -1
		if start.Has(src) {
			column = columns
			columns++
		}
		k.By, k.Columns = append(k.By, i), append(k.Columns, column)
		plan.By = append(plan.By, src)
	}
	plan.Details = !o.Bare
	k.plan = &plan
	if o.add(start) != nil || o.add(end) != nil {
		return // the conditions were checked, so the probe belongs to another kind of event
	}
	k.isPaired = true
	for _, s := range o.sides { // several starts may be known before the first end
		if s != nil && s.kind == k && s != start && s != end {
			o.join(s)
		}
	}
}

// Check returns an error if no operation has the variables of an expression in Where or By.
func (o *Operations) Check(all []*recording.Probe) error {
	for _, p := range all {
		o.Know(p)
	}
	kinds := o.Kinds()
	if len(kinds) == 0 {
		return fmt.Errorf("%w: none has a name that ends in %s, with a counterpart that ends in %s or %s, and an argument", query.ErrNothing,
			spec.StartSuffix, spec.EndSuffixes[0], spec.EndSuffixes[1])
	}
	if err := o.fitKey(kinds); err != nil {
		return err
	}
	for i, src := range append(append([]string{}, o.Where...), o.By...) {
		if err := fits(kinds, i < len(o.Where), src); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error if an expression fits no kind of operation.
func fits(kinds []*Kind, isFilter bool, src string) error {
	var wrong error
	for _, k := range kinds {
		for i := range k.first {
			e := k.first[len(k.first)-1-i]
			parse := e.Parse
			if isFilter {
				parse = e.ParseFilter
			}
			_, err := parse(src)
			if err == nil {
				return nil
			}
			wrong = expr.Nearer(err, wrong)
		}
	}
	return expr.With(wrong, "no operation has everything that this uses")
}

// Add adds an event, and returns its effect on the selected operations.
func (o *Operations) Add(e *recording.Event, f *replay.File) Outcome {
	s, known := o.sides[e.Probe]
	if !known {
		o.meet(e.Probe, f)
		s = o.sides[e.Probe]
	}
	if s == nil || !s.kind.isPaired || !s.kind.Fits() && !o.All {
		return Outcome{}
	}
	return o.take(s, e, f)
}

// IsStray reports whether an event belongs to no operation that can be shown: to none at all, to
// one of which only one probe exists, or it is an end without a start.
func (o *Operations) IsStray(e *recording.Event) bool {
	s := o.sides[e.Probe]
	return s == nil || !s.kind.isPaired || !s.IsStart && s.kind.Fits()
}

// Failed reports whether an event ends an operation that has failed: its argument with the name
// error is not empty, 0 or false.
func Failed(e *recording.Event) bool {
	at := slices.IndexFunc(e.Probe.Args, func(a recording.Arg) bool { return a.Name == "error" })
	return at >= 0 && e.Word(at) != 0 // the length, if it is a string
}

// meet adds the probe of an event, and the other probes that its recording has by now: a start
// can only be paired if the probe of its end is known.
func (o *Operations) meet(p *recording.Probe, f *replay.File) {
	o.Know(p)
	for _, other := range f.Recorded() {
		o.Know(other)
	}
}

// Ends returns the number of operations that ended, but whose start was not seen.
func (o *Operations) Ends() (n uint64) {
	for _, k := range o.Kinds() {
		n += k.totals.Ends
	}
	return n - o.Early
}

// Report warns of operations that are not included.
func (o *Operations) Report(to *console.Console) {
	var unfit query.Unfit
	kinds := o.Kinds()
	for _, k := range kinds {
		for range k.first {
			if !k.Fits() {
				unfit.Add(k.unfit)
			}
		}
	}
	if line := unfit.Take(2 * len(kinds)); line != "" {
		to.Warn("%s", line)
	}
	WarnEarly(to, o.Ends())
	WarnFull(to, o.Open.Full)
	WarnUnknown(to, o.Unknown, o.Key)
	if o.over > 0 {
		to.Warn("%d probes are not included, because there are more than %d kinds of operations", o.over, query.MaxKinds)
	}
	evaluate.Unevaluated(to, o.Unevaluated)
}

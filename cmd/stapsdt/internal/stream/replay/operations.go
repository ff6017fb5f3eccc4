package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Operations pairs the events of all operations by their first arguments: NAME__start with NAME__end or NAME__done.
type Operations struct {
	// Where and By apply to each kind of operation that has their variables. All is as in Plan.
	Where, By []string
	All       bool
	// Full counts the starts for which there was no room.
	Full uint64

	kinds []*Kind
	named map[string]*Kind
	sides map[*recording.Probe]*Kind // nil for a probe that belongs to no operation
	open  int
	over  uint64 // counts the probes of kinds for which there was no room
}

// Kind is a kind of operation, such as all operations of a provider with the name query.
type Kind struct {
	Name string // PROVIDER:NAME
	// By lists the expressions of Operations.By that this kind has, and Columns their indexes in Operation.Details, or -1
	// if an open operation does not have them.
	By      []int
	Columns []int
	// Fits reports whether the kind has the variables of the conditions.
	Fits bool

	Pairs  *Pairs // nil until both a start and an end are known
	number int
	first  [2]*recording.Probe // the first start and the first end
	unfit  error               // the error if the kind does not fit
}

// IsSpan reports whether the operations have IDs that are unique in their process, and refer to their parents by ID.
func (k *Kind) IsSpan() bool {
	return slices.ContainsFunc(k.first[0].Args, func(a recording.Arg) bool { return a.Name == "parent" })
}

// The suffixes of the names of probes that belong to an operation.
var (
	startSuffix = "__start"
	endSuffixes = []string{"__end", "__done"}
)

// NameOf returns the name of the operation that a probe starts or ends, or "".
func NameOf(probe string) (name string, isStart bool) {
	if name, ok := strings.CutSuffix(probe, startSuffix); ok {
		return name, true
	}
	for _, suffix := range endSuffixes {
		if name, ok := strings.CutSuffix(probe, suffix); ok {
			return name, false
		}
	}
	return "", false
}

// OperationSpecs returns specs of the probes of the operations with some names. others maps a spec to its alternative.
func OperationSpecs(names []string) (specs []string, others map[string]string, err error) {
	others = map[string]string{}
	for _, name := range names {
		asked, err := spec.Parse(name)
		if err != nil {
			return nil, nil, console.Usagef("%w", err)
		}
		if operation, _ := NameOf(asked.Probe); operation != "" {
			operation = strings.TrimSuffix(name, asked.Probe) + operation
			return nil, nil, console.Usagef("%s names a probe of an operation: give %s", name, operation)
		}
		end := name + endSuffixes[0]
		specs = append(specs, name+startSuffix, end)
		others[end] = name + endSuffixes[1]
	}
	return specs, others, nil
}

// Kinds returns the kinds that have both a start and an end.
func (o *Operations) Kinds() (all []*Kind) {
	for _, k := range o.kinds {
		if k.Pairs != nil {
			all = append(all, k)
		}
	}
	return all
}

// Know adds a probe, unless it is known.
func (o *Operations) Know(p *recording.Probe) {
	if o.sides == nil {
		o.sides, o.named = map[*recording.Probe]*Kind{}, map[string]*Kind{}
	}
	if _, known := o.sides[p]; known {
		return
	}
	o.sides[p] = nil
	name, isStart := NameOf(p.Name)
	if name == "" || len(p.Args) == 0 {
		return
	}
	k := o.kind(p.Provider + ":" + name)
	if k == nil {
		o.over++
		return
	}
	o.sides[p] = k
	which := 1
	if isStart {
		which = 0
	}
	switch {
	case k.Pairs != nil:
		o.join(k, p)
	case k.first[which] == nil:
		k.first[which] = p
		o.pair(k)
	}
}

// join adds another start or end to a kind whose events are paired.
func (o *Operations) join(k *Kind, p *recording.Probe) {
	_, isStart := NameOf(p.Name)
	if err := k.Pairs.AddSide(Side{p, k.number, isStart}); err != nil {
		o.sides[p] = nil // the arguments may differ in another program
	}
}

// kind returns the kind with a name, and creates it if needed. It returns nil if there are too many kinds.
func (o *Operations) kind(name string) *Kind {
	k := o.named[name]
	if k == nil && len(o.kinds) < query.MaxKinds {
		k = &Kind{Name: name, number: len(o.kinds), Fits: true}
		o.named[name], o.kinds = k, append(o.kinds, k)
	}
	return k
}

// pair begins to pair the events of a kind, if both of its probes are known.
func (o *Operations) pair(k *Kind) {
	if k.first[0] == nil || k.first[1] == nil {
		return
	}
	start, end := NewEvaluator(k.first[0]), NewEvaluator(k.first[1])
	has := func(src string) bool { return start.Has(src) || end.Has(src) }
	plan := Plan{Pairing: query.Pairing{Key: "arg0", Details: true}, TextSize: TextSize, All: o.All}
	for _, src := range o.Where {
		if k.unfit == nil && !has(src) {
			_, k.unfit = end.Parse(src)
		}
	}
	k.Fits = k.unfit == nil
	if k.Fits {
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
	pairs, err := NewPairs(plan, []Side{{k.first[0], k.number, true}, {k.first[1], k.number, false}})
	if err != nil {
		return // the conditions were checked, so the probe belongs to another kind of event
	}
	k.Pairs = pairs
	for p, of := range o.sides { // several starts may be known before the first end
		if of == k && !pairs.Knows(p) {
			o.join(k, p)
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
			startSuffix, endSuffixes[0], endSuffixes[1])
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
			e := NewEvaluator(k.first[len(k.first)-1-i])
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

// Add adds an event. It returns the kind of operation that the event starts or ends, or nil if it does neither.
func (o *Operations) Add(e *recording.Event, f *File) (*Kind, Outcome) {
	if _, known := o.sides[e.Probe]; !known {
		o.meet(e.Probe, f)
	}
	k := o.sides[e.Probe]
	if k == nil || k.Pairs == nil || !k.Fits && !o.All {
		return nil, Outcome{}
	}
	before, full := k.Pairs.Len(), k.Pairs.Full
	k.Pairs.room = query.MaxOpen - o.open + before
	outcome := k.Pairs.Add(e, f)
	o.open += k.Pairs.Len() - before
	o.Full += k.Pairs.Full - full
	outcome.Ended.Selected = outcome.Ended.Selected && k.Fits
	return k, outcome
}

// IsStray reports whether an event belongs to an operation but cannot be paired: it is an end without a start, or only
// one of the two probes exists.
func (o *Operations) IsStray(e *recording.Event) bool {
	k := o.sides[e.Probe]
	if k == nil || k.Pairs == nil {
		return true
	}
	_, isStart := NameOf(e.Probe.Name)
	return !isStart && k.Fits
}

// Failed reports whether an event ends an operation that has failed: its argument with the name error is not empty, 0
// or false.
func Failed(e *recording.Event) bool {
	at := slices.IndexFunc(e.Probe.Args, func(a recording.Arg) bool { return a.Name == "error" })
	return at >= 0 && e.Word(at) != 0 // the length, if it is a string
}

// meet adds the probe of an event, and the other probes that its recording has by now: a start can only be paired if
// the probe of its end is known.
func (o *Operations) meet(p *recording.Probe, f *File) {
	o.Know(p)
	for _, other := range f.Recorded() {
		o.Know(other)
	}
}

// Gone removes the probes of a recording whose process has ended, and the operations that are open
// in it.
func (o *Operations) Gone(f *File) {
	for _, p := range f.Recorded() {
		delete(o.sides, p)
	}
	for _, k := range o.Kinds() {
		before := k.Pairs.Len()
		k.Pairs.Gone(f)
		o.open += k.Pairs.Len() - before
	}
}

// Ends returns the number of operations that ended, but whose start was not seen.
func (o *Operations) Ends() (n uint64) {
	for _, k := range o.Kinds() {
		n += k.Pairs.Totals(k.number).Ends
	}
	return n
}

// Report warns of operations that are not included.
func (o *Operations) Report(to *console.Console) {
	var unevaluated uint64
	var unfit query.Unfit
	kinds := o.Kinds()
	for _, k := range kinds {
		unevaluated += k.Pairs.Unevaluated
		for range k.first {
			if !k.Fits {
				unfit.Add(k.unfit)
			}
		}
	}
	if line := unfit.Take(2 * len(kinds)); line != "" {
		to.Warn("%s", line)
	}
	if ends := o.Ends(); ends > 0 {
		to.Warn("not included: %s that began earlier, or whose start was lost", render.Number(ends, "operation"))
	}
	if o.Full > 0 {
		to.Warn("%d starts are not included, because more than %d operations were open", o.Full, query.MaxOpen)
	}
	if o.over > 0 {
		to.Warn("%d probes are not included, because there are more than %d kinds of operations", o.over, query.MaxKinds)
	}
	Unevaluated(to, unevaluated)
}

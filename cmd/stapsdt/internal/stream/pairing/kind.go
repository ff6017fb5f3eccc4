package pairing

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Kind is a kind of operation, such as all operations of a provider with the name query.
type Kind struct {
	Name   string // PROVIDER:NAME, if it comes from the names of probes
	Number int
	// By lists the expressions of Operations.By that this kind has, and Columns their indexes in
	// Operation.Details, or -1 if an open operation does not have them.
	By      []int
	Columns []int

	plan     *Plan
	isPaired bool     // both a start and an end are known
	first    [2]*side // the first start and the first end
	added    [2]bool  // a start and an end have everything that the expressions use
	columns  *Columns // see details
	unfit    error    // names what a side lacks for the expressions, or nil
	totals   query.Totals
	free     []*Operation // see Operation.Reuse
}

// Columns names the values of Operation.Details. The first By of them belong to the pairing's By.
// Key is the name of the pairing's key.
type Columns struct {
	Names []string
	By    int
	Key   string
}

// details returns the columns of the details of the first start that are kept.
func (k *Kind) details() *Columns {
	if k.columns != nil {
		return k.columns
	}
	start := k.first[0]
	args := start.Probe.Args
	c := &Columns{Key: KeyName(k.plan.Key, func(i int) string { return args[i].Name })}
	k.columns = c
	if !k.plan.Details {
		return c
	}
	shown := map[string]bool{"parent": true}
	for _, name := range k.KeyArgs(start.Probe) {
		shown[name] = true
	}
	for _, src := range k.plan.By {
		if start.Has(src) {
			c.Names = append(c.Names, src)
			shown[src] = true
		}
	}
	c.By = len(c.Names)
	for i, a := range args {
		if !shown[a.Name] && !shown[fmt.Sprintf("arg%d", i)] {
			c.Names = append(c.Names, a.Name)
		}
	}
	return c
}

// KeyArgs returns the names of the arguments of a probe that are parts of the key.
func (k *Kind) KeyArgs(p *recording.Probe) (names []string) {
	for i := range p.Args {
		name := p.Args[i].Name
		is := func(part string) bool { return part == name || part == "arg"+strconv.Itoa(i) }
		if slices.ContainsFunc(k.plan.Key, is) {
			names = append(names, name)
		}
	}
	return names
}

// Fits reports whether the kind has the variables of the key and of the conditions.
func (k *Kind) Fits() bool { return k.unfit == nil }

// IsSpan reports whether the operations have IDs that are unique in their process, and refer to
// their parents by ID.
func (k *Kind) IsSpan() bool {
	isParent := func(a recording.Arg) bool { return a.Name == "parent" }
	return slices.ContainsFunc(k.first[0].Probe.Args, isParent)
}

package events

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Plan selects the operations for a command.
type Plan struct {
	// Config selects their probes, and has no condition.
	Config query.Config
	// Where are conditions, By are expressions, and Key has the parts of pairing.Operations.Key. At
	// least one operation must have all the variables they use.
	Where, By, Key []string
	// Lines are the operations, or nil if probes are those of operations.
	Lines []spec.LinePair
}

// NewPlan returns the plan for the operations that the specs of a configuration name, or for all
// operations if it has no specs. key is a list of lists of expressions.
func NewPlan(config query.Config, by, key []string) (*Plan, error) {
	names := config.Specs
	if len(names) == 0 {
		names = []spec.Choice{{Spec: spec.Any}}
	}
	lines := slices.ContainsFunc(names, spec.Choice.IsLine)
	for _, name := range names {
		switch {
		case lines && !name.IsLine():
			return nil, query.Usagef("%v is no line, but other SPECs are: give SPECs of one kind", name)
		case !lines && name.Functions:
			return nil, query.Usagef("%v selects functions, but operations have two probes", name)
		}
	}
	where, err := query.SplitWhere(config.Where), config.CheckWhere()
	if err != nil {
		return nil, err
	}
	if key, err = query.SplitExprs(key); err != nil {
		return nil, err
	}
	plan := &Plan{Where: where, By: by, Key: key}
	if lines {
		if plan.Lines, err = spec.LinePairs(names); err != nil {
			return nil, query.Usagef("%w", err)
		}
		if len(key) == 0 {
			plan.Key = []string{query.Goroutine}
		}
	} else if config.Specs, err = pairing.OperationSpecs(names); err != nil {
		return nil, err
	}
	config.Where, config.Kernel = "", query.KeyNeedsThread(plan.Key, slices.Concat(where, by)...)
	plan.Config = config
	return plan, nil
}

// Functions reports whether specs select functions, and not lines of them. It returns an error if
// only some of them do.
func Functions(specs []spec.Choice) (bool, error) {
	functions, other := 0, ""
	for _, one := range specs {
		if one.Functions && !one.IsLine() {
			functions++
		} else {
			other = one.String()
		}
	}
	if functions > 0 && other != "" {
		return false, query.Usagef("%s selects no functions, but other SPECs do: give SPECs of one kind", other)
	}
	return functions > 0, nil
}

// NewCalls returns the configuration that selects the calls and the returns of functions and has no
// condition, and the options of their stream.
func NewCalls(config query.Config) (query.Config, Options, error) {
	o := Options{
		Goroutines: true, Paired: true, Calls: &Calls{Where: query.SplitWhere(config.Where)},
	}
	if err := config.CheckWhere(); err != nil {
		return config, o, err
	}
	var both []spec.Choice
	for _, calls := range config.Specs {
		if calls.Returns {
			return config, o, query.Usagef("tree pairs calls with their returns: give %s", calls.Calls())
		}
		both = append(both, calls, spec.Choice{Spec: calls.Suffixed(spec.ReturnSuffix)})
	}
	config.Specs, config.Where = both, ""
	return config, o, nil
}

// Options returns the options of the plan's stream.
func (p *Plan) Options(from replay.From) Options {
	return Options{
		From: from, Goroutines: true, Paired: true, Past: len(p.Lines) == 0,
		Needs: replay.Needs{All: func(all []*recording.Probe) error {
			o := p.Operations()
			return o.Check(all)
		}},
	}
}

// Operations returns the operations of the plan.
func (p *Plan) Operations() pairing.Operations {
	return pairing.Operations{Key: p.Key, Lines: p.Lines, Where: p.Where, By: p.By}
}

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
}

// NewPlan returns the plan for the operations that the specs of a configuration name, or for all
// operations if it has no specs. key is a list of lists of expressions.
func NewPlan(config query.Config, by, key []string) (*Plan, error) {
	names := config.Specs
	if len(names) == 0 {
		names = []spec.Choice{{Spec: spec.Any}}
	}
	for _, name := range names {
		if name.Functions {
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
	config.Where, config.Kernel = "", query.KeyNeedsThread(key, slices.Concat(where, by)...)
	config.Specs, err = pairing.OperationSpecs(names)
	return &Plan{Config: config, Where: where, By: by, Key: key}, err
}

// Functions reports whether specs select functions. It returns an error if only some of them do.
func Functions(specs []spec.Choice) (bool, error) {
	functions, other := 0, ""
	for _, one := range specs {
		if one.Functions {
			functions++
		} else {
			other = one.String()
		}
	}
	if functions > 0 && other != "" {
		return false, query.Usagef("%s selects probes, but other SPECs select functions: give SPECs of one kind", other)
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
		if !calls.Lines.IsZero() {
			return config, o, query.Usagef("tree shows calls, and %v is a line: give the function", calls)
		}
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
	return Options{From: from, Goroutines: true, Paired: true, Past: true, Needs: replay.Needs{
		All: func(all []*recording.Probe) error {
			return (&pairing.Operations{Key: p.Key, Where: p.Where, By: p.By}).Check(all)
		},
	}}
}

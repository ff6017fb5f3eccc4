package events

import (
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Plan selects the operations for a command.
type Plan struct {
	// Where are conditions, and By are expressions. At least one operation must have all the variables they use.
	Where, By []string
}

// NewPlan returns the plan for the operations with some names, or for all operations if there are no names. It changes
// the configuration to select their probes, and removes its condition.
func NewPlan(config *query.Config, names, by []string) (*Plan, error) {
	if len(names) == 0 {
		names = []string{"*:*"}
	}
	for _, name := range names {
		if spec, err := spec.Parse(name); err == nil && spec.Functions {
			return nil, console.Usagef("%v selects functions, but top shows operations with two probes: stapsdt latency shows how long functions take", spec)
		}
	}
	where, err := takeWhere(config)
	if err != nil {
		return nil, err
	}
	config.Specs, config.Others, err = replay.OperationSpecs(names)
	return &Plan{Where: where, By: by}, err
}

// takeWhere removes the condition of a configuration, and returns its parts.
func takeWhere(config *query.Config) (parts []string, err error) {
	if config.Where != "" {
		err = query.CheckSyntax(config.Where)
	}
	parts, config.Where = query.SplitWhere(config.Where), ""
	return parts, err
}

// Functions reports whether the names select functions. It returns an error if only some of them do.
func Functions(names []string) (bool, error) {
	functions, other := 0, ""
	for _, name := range names {
		if spec, err := spec.Parse(name); err == nil && spec.Functions {
			functions++
		} else {
			other = name
		}
	}
	if functions > 0 && other != "" {
		return false, console.Usagef("%s selects probes, but other SPECs select functions: give SPECs of one kind", other)
	}
	return functions > 0, nil
}

// NewCalls changes the configuration to select the calls and returns of functions, removes its condition, and returns
// the options of their stream.
func NewCalls(config *query.Config, names []string) (o Options, err error) {
	o = Options{Goroutines: true, Calls: &Calls{}}
	if o.Calls.Where, err = takeWhere(config); err != nil {
		return o, err
	}
	config.Specs = nil
	for _, name := range names {
		if strings.HasSuffix(name, spec.ReturnSuffix) {
			return o, console.Usagef("tree pairs calls with their returns: give %s", strings.TrimSuffix(name, spec.ReturnSuffix))
		}
		config.Specs = append(config.Specs, name, name+spec.ReturnSuffix)
	}
	return o, nil
}

// Options returns the options of the plan's stream.
func (p *Plan) Options(from replay.From) Options {
	return Options{From: from, Goroutines: true, Needs: replay.Needs{
		Kernel: query.UsesThread(slices.Concat(p.Where, p.By)...),
		All: func(all []*recording.Probe) error {
			return (&replay.Operations{Where: p.Where, By: p.By}).Check(all)
		},
	}}
}

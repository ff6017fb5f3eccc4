//go:build linux

package events

import (
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Plan says which operations a command is about.
type Plan struct {
	// Where are conditions, and By are expressions. At least one operation must have what they ask for.
	Where, By []string

	others []string
}

// NewPlan returns the plan for the operations with some names, or all if there are none. It makes the configuration that
// of their probes, without its condition.
func NewPlan(config *run.Config, names, by []string) (*Plan, error) {
	if len(names) == 0 {
		names = []string{"*:*"}
	}
	for _, name := range names {
		if spec, err := spec.Parse(name); err == nil && spec.Functions {
			return nil, console.Usagef("%v selects functions, and top shows operations with two probes: stapsdt latency shows how long functions take", spec)
		}
	}
	p := &Plan{By: by}
	if config.Where != "" {
		if err := bpf.CheckSyntax(config.Where); err != nil {
			return nil, err
		}
		p.Where = bpf.SplitWhere(config.Where)
	}
	config.Where = ""
	config.Specs, config.Others = replay.OperationSpecs(names)
	for _, other := range config.Others {
		p.others = append(p.others, other)
	}
	return p, nil
}

// Functions reports whether names are those of functions. It returns an error if only some are.
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
		return false, console.Usagef("%s selects no functions, and other SPECs do: give either", other)
	}
	return functions > 0, nil
}

// NewCalls makes a configuration that of the calls and returns of functions, without its condition, and
// returns the options of their stream.
func NewCalls(config *run.Config, names []string) (o Options, err error) {
	o = Options{Goroutines: true, Calls: &Calls{}}
	if config.Where != "" {
		if err := bpf.CheckSyntax(config.Where); err != nil {
			return o, err
		}
		o.Calls.Where = bpf.SplitWhere(config.Where)
	}
	config.Where, config.Specs = "", nil
	for _, name := range names {
		if strings.HasSuffix(name, spec.ReturnSuffix) {
			return o, console.Usagef("tree pairs calls with their returns: give %s", strings.TrimSuffix(name, spec.ReturnSuffix))
		}
		config.Specs = append(config.Specs, name, name+spec.ReturnSuffix)
	}
	return o, nil
}

// Options returns those of a stream for the plan.
func (p *Plan) Options(from replay.From) Options {
	return Options{From: from, Goroutines: true, Needs: live.Needs{
		Kernel: live.Thread(slices.Concat(p.Where, p.By)...),
		Others: p.others,
		All: func(all []*recording.Probe) error {
			return (&replay.Operations{Where: p.Where, By: p.By}).Check(all)
		},
	}}
}

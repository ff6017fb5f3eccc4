//go:build linux

// Package latency measures in the kernel how long operations take, which start at one probe and end
// at another.
package latency

import (
	"context"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
)

// source is what pairs the events.
type source interface {
	// Rows returns the times of the operations that have ended.
	Rows() ([]*count.Row[*operation], error)
	// unpaired returns what has no counterpart, of each kind.
	unpaired() ([]unpaired, error)
	// details returns the names of what is shown of an operation that is open, and keyName that of
	// what pairs a start with its end.
	details() details
	keyName() string
}

// latency shows the times of operations.
type latency struct {
	*console.Console
	source  source
	options count.Options
	pairs   *pairs
	kinds   kinds
	screen  console.Screen
}

// Run measures operations until the run ends, and shows their times. names are the command line's:
// the probes of the start and of the end, or the name that their __start and __end follow. key is
// what a start and its end have in common, or "".
func Run(ctx context.Context, to *console.Console, config run.Config, names []string, key string, o count.Options) (err error) {
	l := &latency{Console: to, options: o, screen: console.Screen{Console: to}}
	if l.pairs, err = newPairs(names, key); err != nil {
		return err
	}
	if err := count.CheckLimit(o.Limit); err != nil {
		return err
	}
	if l.options.By, err = bpf.SplitExprs(o.By); err != nil {
		return err
	}
	l.kinds.named = l.pairs.named
	if len(o.From) > 0 {
		return l.runRecorded(ctx, &config)
	}
	return l.runTraced(ctx, config)
}

// pairs are the probes that belong together.
type pairs struct {
	named  bool // whether the command line names operations, and not their probes
	specs  []string
	others map[string]string // what the second stands for too
	key    string
}

// newPairs returns the specs of the start and of the end, and decides what pairs them.
func newPairs(names []string, key string) (*pairs, error) {
	p := &pairs{key: key}
	switch len(names) {
	case 1:
		p.named, p.specs = true, []string{names[0] + "__start", names[0] + "__end"}
		p.others = map[string]string{p.specs[1]: names[0] + "__done"}
	case 2:
		p.specs = names
	default:
		return nil, usage.Errorf("latency takes the probes of the start and of the end, or the name that their __start and __end follow")
	}
	if p.specs[0] == p.specs[1] {
		return nil, usage.Errorf("the start and the end are the same probe: %s", p.specs[0])
	}
	if p.key == "" {
		start, ok1 := strings.CutSuffix(p.specs[0], "_start")
		end, ok2 := strings.CutSuffix(p.specs[1], "_end")
		if !ok2 {
			end, ok2 = strings.CutSuffix(p.specs[1], "_done")
		}
		if !ok1 || !ok2 || start != end {
			return nil, usage.Errorf("no key pairs a start with its end: give --key arg0 or another expression, --key goroutine or --key thread")
		}
		p.key = "arg0"
	}
	return p, nil
}

//go:build linux

package probes

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
)

// Target selects the processes in which a command looks for probes.
type Target struct {
	PIDs []int
	All  bool
}

// Given reports whether there are any.
func (t *Target) Given() bool { return t.All || len(t.PIDs) > 0 }

// Check returns an error if the options exclude each other.
func (t *Target) Check() error {
	if t.All && len(t.PIDs) > 0 {
		return usage.Errorf("-p and -a exclude each other")
	}
	return nil
}

// Selector checks the target and the specs of a command, and returns what they select. others
// maps a spec to its alternative.
func (t *Target) Selector(specs []string, others map[string]string) (*Selector, error) {
	if len(specs) == 0 {
		return nil, usage.Errorf("no probes: give [FILE:]PROVIDER:PROBE, such as 'myapp:*'")
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	for _, text := range specs {
		if remote.IsAddress(text) {
			return nil, usage.Errorf("an address is the first argument of trace, and has no place elsewhere")
		}
	}
	selector, err := NewSelector(specs, others)
	if err != nil {
		return nil, usage.Errorf("%w", err)
	}
	for i, spec := range selector.Specs {
		if spec.File == "" && !t.Given() {
			return nil, usage.Errorf("no processes: give -p PID, or -a for all, or a file as in FILE:%s", specs[i])
		}
	}
	return selector, nil
}

// Look looks at the processes.
func (t *Target) Look(finder *target.Finder) (*Found, error) {
	pids := t.PIDs
	if t.All {
		finder.Limit()
		var err error
		if pids, err = target.Processes(); err != nil {
			return nil, err
		}
	}
	return Look(finder, pids, t.All, nil)
}

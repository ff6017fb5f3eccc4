//go:build linux

package probes

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// Target selects the processes in which a command looks for probes.
type Target struct {
	// PIDs select processes and what they have forked, earlier or later.
	PIDs []int
	// Pods select the processes of pods, including later ones.
	Pods []cgroup.Pattern
	All  bool
}

// Given reports whether the target selects any processes.
func (t *Target) Given() bool { return t.All || len(t.PIDs)+len(t.Pods) > 0 }

// Now returns the target with the present processes of its pods in place of the pods.
func (t *Target) Now() (Target, error) {
	if len(t.Pods) == 0 {
		return *t, nil
	}
	pids, err := pods.PIDs(t.Pods)
	return Target{PIDs: pids}, err
}

// Check returns an error if the options exclude each other.
func (t *Target) Check() error {
	switch {
	case t.All && len(t.PIDs)+len(t.Pods) > 0:
		return console.Usagef("-p and -a exclude each other")
	case len(t.PIDs) > 0 && len(t.Pods) > 0:
		return console.Usagef("-p takes processes or pods, and not both")
	}
	return nil
}

// Selector checks the target and the specs of a command, and returns the selector of the specs.
// others maps a spec to its alternative.
func (t *Target) Selector(specs []string, others map[string]string) (*Selector, error) {
	if len(specs) == 0 {
		return nil, console.Usagef("no probes: give [FILE:]PROVIDER:PROBE, such as 'myapp:*'")
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	for _, text := range specs {
		if remote.IsAddress(text) {
			return nil, console.Usagef("an address is the first argument, and has no place elsewhere")
		}
	}
	selector, err := NewSelector(specs, others)
	if err != nil {
		return nil, console.Usagef("%w", err)
	}
	if len(selector.FunctionSpecs()) > 0 && len(t.PIDs) == 0 {
		return nil, console.Usagef("%v selects functions, which are looked for in the processes that -p names; for probes of a provider named go, give FILE:", selector.FunctionSpecs()[0])
	}
	for i, spec := range selector.Specs {
		if spec.File == "" && !t.Given() {
			return nil, console.Usagef("no processes: give -p PID, or -a for all, or a file as in FILE:%s", specs[i])
		}
	}
	return selector, nil
}

// Look looks at the processes and at those that they have forked.
func (t *Target) Look(finder *target.Finder) (*Found, error) {
	now, err := t.Now()
	if err != nil {
		return nil, err
	}
	pids := proc.Family(now.PIDs)
	if t.All {
		finder.Limit()
		if pids, err = proc.Processes(); err != nil {
			return nil, err
		}
	}
	return Look(finder.Process, pids, now.PIDs, nil)
}

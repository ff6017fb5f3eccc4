//go:build linux

package probes

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Now returns the target with the present processes of its pods in place of the pods.
func Now(t *query.Target) (query.Target, error) {
	if len(t.Pods) == 0 {
		return *t, nil
	}
	pids, err := pods.PIDs(t.Pods)
	return query.Target{PIDs: pids}, err
}

// Select checks the target and the specs of a command, and returns the selector of the specs.
func Select(t *query.Target, specs []spec.Choice) (*Selector, error) {
	if err := query.CheckSpecs(specs); err != nil {
		return nil, err
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	for _, one := range specs {
		if spec.IsAddress(one.String()) {
			return nil, query.Usagef("an address must be the first argument")
		}
	}
	selector := NewSelector(specs)
	for _, spec := range selector.FunctionSpecs() {
		if spec.File == "" && len(t.PIDs)+len(t.Names) == 0 {
			return nil, query.Usagef("%v selects functions, which are looked for in the processes that -p names, or in a file, as in FILE:%v", spec, spec)
		}
	}
	for _, one := range specs {
		if one.File == "" && !t.Given() {
			return nil, query.Usagef("no processes: give -p PID, or -a for all, or a file as in FILE:%v", one)
		}
	}
	return selector, nil
}

// LookAt looks at the processes of a target and at those that they have forked.
func LookAt(t *query.Target, finder *target.Finder) (*Found, error) {
	now, err := Now(t)
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

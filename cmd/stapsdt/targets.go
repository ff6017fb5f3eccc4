//go:build linux

package main

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/spf13/cobra"
)

// where are the flags that say which processes are selected.
type where struct {
	pids []int
	all  bool
}

func (w *where) flags(c *cobra.Command) {
	c.Flags().VarP((*pidList)(&w.pids), "pid", "p", "the process `PID`, or several as pgrep prints them, with their shared libraries")
	c.Flags().BoolVarP(&w.all, "all", "a", false, "every process on the machine, in containers too")
	_ = c.RegisterFlagCompletionFunc("pid", completePID)
}

func (w *where) check() error {
	if w.all && len(w.pids) > 0 {
		return usagef("-p and -a exclude each other")
	}
	return nil
}

// selector checks the flags and the specs of a command, and returns what they select. others has
// what a spec stands for too.
func (w *where) selector(specs []string, others map[string]string) (*probes.Selector, error) {
	if len(specs) == 0 {
		return nil, usagef("which probes? Give [FILE:]PROVIDER:PROBE, such as 'myapp:*'")
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	for _, text := range specs {
		if remote.IsAddress(text) {
			return nil, usagef("an address is the first argument of trace, and has no place elsewhere")
		}
	}
	selector, err := probes.NewSelector(specs, others)
	if err != nil {
		return nil, usagef("%w", err)
	}
	for i, spec := range selector.Specs {
		if spec.File == "" && !w.all && len(w.pids) == 0 {
			return nil, usagef("which processes? Give -p PID, or -a for all, or a file as in FILE:%s", specs[i])
		}
	}
	return selector, nil
}

// scan looks at the selected processes.
func (w *where) scan(finder *target.Finder) (*probes.Found, error) {
	pids := w.pids
	if w.all {
		var err error
		if pids, err = target.Processes(); err != nil {
			return nil, err
		}
	}
	return probes.Look(finder, pids, w.all)
}

// incomplete warns that some processes may not be looked at. It returns an error if the files of
// no other were found.
func (s *session) incomplete(found *probes.Found) error {
	switch {
	case found.Refused == nil:
		return nil
	case len(found.Files) == 0 && len(found.Refused.Missing) > 0:
		return found.Refused
	}
	s.warn("%s not traced completely: %v", processCount(found.Incomplete), found.Refused)
	return nil
}

// processCount returns "1 process is" or "2 processes are".
func processCount(n int) string {
	if n == 1 {
		return "1 process is"
	}
	return fmt.Sprintf("%d processes are", n)
}

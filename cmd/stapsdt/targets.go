//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/spf13/cobra"
)

// where are the flags that say which processes are meant.
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

// scan is what was found in processes.
type scan struct {
	files []*target.File
	uses  map[*target.File][]use
	// refused is the first refusal, and processes is how many there were.
	refused   *rights.Error
	processes int
}

// use is a process that has mapped a file.
type use struct {
	pid int
	target.Use
}

// scan looks at the processes that are meant. It is an error if one of those that were
// named has exited or cannot be read. Of all processes, some always exit while it looks, and
// those that cannot be read are counted.
func (w *where) scan(finder *target.Finder) (*scan, error) {
	pids := w.pids
	if w.all {
		var err error
		if pids, err = target.Processes(); err != nil {
			return nil, err
		}
	}
	s := &scan{uses: map[*target.File][]use{}}
	for _, pid := range pids {
		uses, skipped, err := finder.Process(pid)
		if err != nil && !w.all {
			return nil, err
		}
		var refused *rights.Error
		if errors.As(errors.Join(err, skipped), &refused) {
			if s.refused == nil {
				s.refused = refused
			}
			s.processes++
		}
		for _, u := range uses {
			if s.uses[u.File] == nil {
				s.files = append(s.files, u.File)
			}
			s.uses[u.File] = append(s.uses[u.File], use{pid, u})
		}
	}
	return s, nil
}

// scanEach looks at processes that have mapped files just now, and calls attach with what each
// has. It returns how many ended before they could be looked at.
func scanEach(finder *target.Finder, pids []int, attach func(*scan) error) (missed int, err error) {
	for _, pid := range pids {
		found, err := (&where{pids: []int{pid}}).scan(finder)
		if err != nil || len(found.files) == 0 { // it may not be looked at, or has no probes
			if !target.Alive(pid) {
				missed++
			}
			continue
		}
		if err := attach(found); err != nil {
			return missed, err
		}
	}
	return missed, nil
}

// incomplete warns that some processes may not be looked at. It returns an error if the files of
// no other were found.
func (s *session) incomplete(found *scan) error {
	switch {
	case found.refused == nil:
		return nil
	case len(found.files) == 0 && len(found.refused.Missing) > 0:
		return found.refused
	}
	s.warn("%s not traced completely: %v", processCount(found.processes), found.refused)
	return nil
}

// processCount returns "1 process is" or "2 processes are".
func processCount(n int) string {
	if n == 1 {
		return "1 process is"
	}
	return fmt.Sprintf("%d processes are", n)
}

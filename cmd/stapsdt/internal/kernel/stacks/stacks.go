//go:build linux

// Package stacks finds the functions of the stacks that the kernel has read.
package stacks

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// Stacks finds the functions of the stacks of a table, once for each stack.
type Stacks struct {
	Table *layout.StackTable

	processes *symbol.Symbolizer
	known     map[stackOf]*symbol.Stack
	exited    int
}

// stackOf is a stack of a process. If several probes share its site, each has its own stackOf,
// because the site is not shown if it belongs to an image.
type stackOf struct {
	process int
	id      layout.StackID
	probe   string
}

// New returns the Stacks of a table. debug finds stripped symbols. verbose also shows the frames of
// the stapsdt library.
func New(table *layout.StackTable, debug *debugfile.Finder, verbose bool) *Stacks {
	s := &Stacks{Table: table, known: map[stackOf]*symbol.Stack{}}
	s.processes = symbol.NewSymbolizer(debug)
	s.processes.Verbose = verbose
	return s
}

// Look reads the memory map of a process, which may exit soon.
func (s *Stacks) Look(pid int) { s.processes.Look(pid) }

// Forget forgets the stacks that were found.
func (s *Stacks) Forget() { clear(s.known) }

// Report warns of stacks whose functions are unknown, because their processes exited too soon.
func (s *Stacks) Report(to *console.Console) {
	if s.exited > 0 {
		to.Warn("%d stacks are shown as addresses, because their processes exited before their memory maps were read", s.exited)
	}
}

// Close releases everything but the table.
func (s *Stacks) Close() { s.processes.Close() }

// Of returns a stack of a process, from which a probe with a name was fired.
func (s *Stacks) Of(process int, probe string, id layout.StackID) *symbol.Stack {
	key := stackOf{process, id, probe}
	if found := s.known[key]; found != nil {
		return found
	}
	addresses, err := s.Table.Addresses(id)
	found := &symbol.Stack{Cut: symbol.CutUnread}
	if err == nil && len(addresses) > 0 {
		found = s.processes.Stack(process, probe, addresses, s.Table.Depth())
	}
	if found.Exited {
		s.exited++
	}
	s.known[key] = found
	return found
}

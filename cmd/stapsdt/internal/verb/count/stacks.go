//go:build linux

package count

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
)

// Stacks finds the functions of the stacks that the kernel has counted, once for each stack.
type Stacks struct {
	kernel    *layout.StackTable
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

// NewStacks returns the Stacks of a table. debug finds stripped symbols. verbose also shows the
// frames of the stapsdt library.
func NewStacks(kernel *layout.StackTable, debug *debugfile.Finder, verbose bool) *Stacks {
	s := &Stacks{kernel: kernel, known: map[stackOf]*symbol.Stack{}}
	s.processes = symbol.NewSymbolizer(debug)
	s.processes.Verbose = verbose
	return s
}

// Exited returns the number of stacks of processes that are unknown because they exited too soon.
func (s *Stacks) Exited() int { return s.exited }

// Close releases everything but the table.
func (s *Stacks) Close() { s.processes.Close() }

// find returns the stack of a row.
func (s *Stacks) find(probe string, r *layout.Row) *symbol.Stack {
	key := stackOf{r.Process, r.Stack, probe}
	if found := s.known[key]; found != nil {
		return found
	}
	addresses, err := s.kernel.Addresses(r.Stack)
	found := &symbol.Stack{Cut: symbol.CutUnread}
	if err == nil && len(addresses) > 0 {
		found = s.processes.Stack(r.Process, probe, addresses, s.kernel.Depth())
	}
	if found.Exited {
		s.exited++
	}
	s.known[key] = found
	return found
}

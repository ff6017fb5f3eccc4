//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"

	"github.com/spf13/cobra"
)

type stack struct {
	aggregate
	file    string
	verbose bool
}

func (s *session) stackCommand() *cobra.Command {
	st := &stack{aggregate: aggregate{tracing: tracing{session: s}}}
	c := &cobra.Command{
		Use:   "stack SPEC... (-p PID | -a | with FILE in each SPEC)",
		Short: "Count the stacks from which events come",
		Long: `Count in the kernel from which stacks of functions the probes are fired, until Ctrl-C, and
print the most frequent ones, or all of them for a flame graph.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a says which processes are meant.`,
		Example: `  stapsdt stack -p 1234 myapp:request__done -d 10s
  stapsdt stack -p 1234 myapp:request__done -w 'status >= 500' -o folded | flamegraph.pl > graph.svg
  stapsdt stack -p 1234 'myapp:*' --by status -o pprof -O fired.pb.gz && go tool pprof -top fired.pb.gz`,
		RunE: func(c *cobra.Command, args []string) error { return st.run(c.Context(), args) },
	}
	st.tracing.flags(c)
	st.byFlag(c)
	c.Flags().BoolVarP(&st.verbose, "verbose", "v", false, "also show the frames of the stapsdt library")
	formats := []string{"text", "json", "folded", "pprof"}
	c.Flags().StringVarP(&st.output, "output", "o", "text", "`FORMAT`: text, json with an object and folded with a line for each stack, or pprof")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringVarP(&st.file, "output-file", "O", "", "write to `FILE` instead of standard output")
	st.numberFlag(c, "stacks")
	return c
}

func (st *stack) check() error {
	switch st.output {
	case "text", "json", "folded":
	case "pprof":
		if _, ok := winsize(st.stdout); ok && st.file == "" {
			return usagef("a profile is not for a terminal: use -O FILE, or > FILE")
		}
	default:
		return usagef("the output format %q is none of text, json, folded and pprof", st.output)
	}
	return st.checkNumber()
}

func (st *stack) run(ctx context.Context, specs []string) (err error) {
	if err := st.check(); err != nil {
		return err
	}
	defer st.close()
	st.stacks = newStacks()
	st.stacks.processes.Verbose = st.verbose
	defer st.stacks.close()
	st.found = func(pid int) error { st.stacks.processes.Look(pid); return nil }
	to := st.stdout
	if st.file != "" {
		// What cannot be written is better known before than after.
		f, err := os.Create(st.file)
		if err != nil {
			return err
		}
		defer func() {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}()
		to = f
	}
	start := time.Now()
	next := start
	err = st.collect(ctx, specs, func() (time.Duration, error) {
		if wait := time.Until(next); wait > 0 {
			return wait, nil
		}
		// Finding the functions now is for processes that exit soon.
		before := time.Now()
		_, err := st.rows()
		next = time.Now().Add(max(resolving, resolvingShare*time.Since(before)))
		return time.Until(next), err
	})
	if err != nil {
		return err
	}
	if err := st.write(to, start); err != nil {
		return err
	}
	if n := st.stacks.exited; n > 0 {
		st.warn("%d stacks are shown as addresses, because their processes exited before their memory maps were read", n)
	}
	return st.report()
}

const (
	// resolving is how often the functions of new stacks are found.
	resolving = 50 * time.Millisecond
	// resolvingShare is the part of a processor that this takes: one in this many.
	resolvingShare = 20
)

func (st *stack) write(to io.Writer, start time.Time) error {
	rows, err := st.rows()
	if err != nil {
		return err
	}
	stacks := render.Stacks{By: st.by, Limit: st.number, Start: start, Duration: time.Since(start)}
	for _, r := range rows {
		stacks.Rows = append(stacks.Rows, render.StackRow{Probe: r.of.String(), By: r.text, Count: r.count, Stack: r.stack})
	}
	switch st.output {
	case "json":
		_, err = to.Write(st.jsonRows(rows, jsonStack))
	case "folded":
		_, err = to.Write(stacks.Folded())
	case "pprof":
		err = stacks.Profile().Write(to)
	default:
		text := stacks.Text()
		if _, _, ok := terminal(to); ok {
			text = append(erase(0, true), text...)
		}
		_, err = to.Write(text)
	}
	return err
}

// jsonStack returns the members of a row that say how often its stack was counted, and which
// functions it has, the innermost first.
func jsonStack(r *row) string {
	return fmt.Sprintf(`,"count":%d,%s`, r.count, render.StackJSON(r.stack))
}

// stacks finds the functions of the stacks that the kernel has counted, once for each.
type stacks struct {
	kernel    *program.Stacks
	processes *symbol.Processes
	known     map[stackOf]*symbol.Stack
	exited    int // how many are of processes of which nothing is known
}

// stackOf is a stack of a process. Where its site has several probes, it has a stack for each,
// because the site is not shown if it is that of an image.
type stackOf struct {
	process uint32
	id      program.StackID
	probe   string
}

func newStacks() *stacks {
	return &stacks{processes: symbol.NewProcesses(), known: map[stackOf]*symbol.Stack{}}
}

func (s *stacks) open() (err error) {
	if s.kernel, err = program.NewStacks(); err != nil {
		return program.MapError(err)
	}
	return nil
}

func (s *stacks) close() {
	if s.kernel != nil {
		_ = s.kernel.Close()
	}
	s.processes.Close()
}

// find returns the stack of a row.
func (s *stacks) find(probe string, r program.Row) *symbol.Stack {
	key := stackOf{r.Process, r.Stack, probe}
	if found := s.known[key]; found != nil {
		return found
	}
	addresses, err := s.kernel.Addresses(r.Stack)
	found := &symbol.Stack{Cut: symbol.CutUnread}
	if err == nil && len(addresses) > 0 {
		found = s.processes.Stack(int(r.Process), probe, addresses, s.kernel.Depth())
	}
	if found.Exited {
		s.exited++
	}
	s.known[key] = found
	return found
}

//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/doctor"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/spf13/cobra"
)

// diagnosis is the command doctor.
type diagnosis struct {
	*console.Console
	process string
	verbose bool
	asJSON  bool
}

func doctorCommand(to *console.Console) *cobra.Command {
	d := &diagnosis{Console: to}
	c := &cobra.Command{
		Use:   "doctor -p PID [SPEC]",
		Short: "Say why a tracer sees nothing",
		Long: `Say why a tracer sees no event of a process, and what to do about it. Run it as the tracer is
run: as the same user, in the same container. It attaches to a probe for a moment, to see
whether the kernel permits that.

Without a SPEC, every probe of the process is selected.`,
		Example: `  stapsdt doctor -p 1234 myapp:request__done
  stapsdt doctor -p 1234 /tmp/stapsdt-0/myapp-….so:myapp:request__done
  stapsdt doctor -p 1234 -v`,
		RunE: func(_ *cobra.Command, args []string) error { return d.run(args) },
	}
	c.Flags().StringVarP(&d.process, "pid", "p", "", "the process `PID`, or its name if no other has it")
	_ = c.RegisterFlagCompletionFunc("pid", completePID)
	c.Flags().BoolVarP(&d.verbose, "verbose", "v", false, "also show what is as it should be")
	outputFlag(c, &d.asJSON)
	return c
}

// statusError ends the command with a status, when what it has to say is printed already.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

func (d *diagnosis) run(args []string) error {
	pids, spec, err := d.parse(args)
	if err != nil {
		return err
	}
	facts := doctor.Read(pids, spec)
	findings := doctor.Diagnose(facts)
	report := doctor.Report{JSON: d.asJSON, Verbose: d.verbose}
	if err := report.Write(d.Out, findings, pids[0], spec); err != nil {
		return err
	}
	if status := doctor.Status(findings); status != 0 {
		return statusError(status)
	}
	return nil
}

// parse reads the processes and the spec. What pgrep prints can be several numbers: in one
// word, or in several, of which those after the first are arguments.
func (d *diagnosis) parse(args []string) (pids []int, spec *target.Spec, err error) {
	words := strings.FieldsFunc(d.process, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for len(args) > 0 && strings.Trim(args[0], "0123456789") == "" {
		words, args = append(words, args[0]), args[1:]
	}
	for _, word := range words {
		pid, err := processOf(word)
		switch {
		case errors.Is(err, target.ErrNoProcess):
			return nil, nil, fmt.Errorf("-p: %w", err)
		case err != nil:
			return nil, nil, console.Usagef("-p %w", err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, nil, console.Usagef("no process: give -p PID")
	}
	if len(args) > 1 {
		return nil, nil, console.Usagef("doctor takes one SPEC")
	}
	if len(args) == 1 {
		s, err := target.ParseSpec(args[0])
		if err != nil {
			return nil, nil, console.Usagef("%w", err)
		}
		if s.Functions {
			return nil, nil, console.Usagef("%v selects functions, and doctor is about probes: stapsdt list -v %v says how a function is seen", s, s)
		}
		spec = &s
	}
	return pids, spec, nil
}

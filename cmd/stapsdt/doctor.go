//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/tools/doctor"
	"github.com/spf13/cobra"
)

func doctorCommand(to *console.Console) *cobra.Command {
	var process string
	var format query.Format
	var verbose bool
	c := &cobra.Command{
		Use:   "doctor -p PID [SPEC]",
		Short: "Explain why stapsdt sees nothing",
		Long: `Explain why stapsdt sees no event of a process, and what to do about it. Run it
as stapsdt is run: as the same user, in the same container. It attaches to a probe for a moment,
to see whether the kernel permits that.

Without a SPEC, every probe of the process is selected.`,
		Example: `  stapsdt doctor -p 1234 myapp:request__done
  stapsdt doctor -p 1234 /tmp/stapsdt-0/myapp-….so:myapp:request__done
  stapsdt doctor -p 1234 -v`,
		RunE: func(_ *cobra.Command, args []string) error {
			pid, spec, err := processAndSpec(process, args)
			if err != nil {
				return err
			}
			findings := doctor.Diagnose(doctor.Read(pid, spec))
			if err := doctor.Write(to.Out, findings, pid, spec, format, verbose); err != nil {
				return err
			}
			if status := doctor.Status(findings); status != 0 {
				return statusError(status)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&process, "pid", "p", "", "the process `PID`, or its name if no other has it")
	_ = c.RegisterFlagCompletionFunc("pid", completePID)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also show the checks that found nothing wrong")
	outputFlag(c, &format)
	return c
}

// This compiles only if exitFault is doctor's status of a fault.
var _ = [1]bool{}[exitFault-doctor.StatusFault]

// processAndSpec reads the process and the spec.
func processAndSpec(process string, args []string) (pid int, only *spec.Spec, err error) {
	words := strings.FieldsFunc(
		process, func(r rune) bool { return r == ',' || unicode.IsSpace(r) },
	)
	switch {
	case len(words) == 0:
		return 0, nil, query.Usagef("no process: give -p PID")
	case len(words) > 1 || len(args) > 0 && isNumber(args[0]):
		// the output of pgrep, with quotes or without
		return 0, nil, query.Usagef("-p takes one process here; pgrep -nx NAME prints the newest of this name")
	}
	switch pid, err = processOf(words[0]); {
	case errors.Is(err, proc.ErrNoProcess):
		return 0, nil, fmt.Errorf("-p: %w", err)
	case err != nil:
		return 0, nil, query.Usagef("-p %w", err)
	}
	if len(args) > 1 {
		return 0, nil, query.Usagef("doctor takes one SPEC")
	}
	if len(args) == 1 {
		specs, err := parseSpecs(args)
		if err != nil {
			return 0, nil, err
		}
		if only = &specs[0].Spec; only.Functions {
			return 0, nil, query.Usagef("%v selects functions, but doctor checks probes only: stapsdt list -v %[1]v shows how a function is seen", only)
		}
	}
	return pid, only, nil
}

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/doctor"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
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

Without a SPEC, every probe of the process is meant.`,
		Example: `  stapsdt doctor -p 1234 myapp:request__done
  stapsdt doctor -p 1234 /tmp/stapsdt-0/myapp-….so:myapp:request__done
  stapsdt doctor -p 1234 -v`,
		RunE: func(_ *cobra.Command, args []string) error { return d.run(args) },
	}
	c.Flags().StringVarP(&d.process, "pid", "p", "", "the process `PID`")
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
	out := bufio.NewWriter(d.Out)
	if d.asJSON {
		err = d.json(out, findings)
	} else {
		d.text(out, findings, pids[0], spec)
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
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
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 0 {
			return nil, nil, usage.Errorf("%q is not a process", word)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, nil, usage.Errorf("which process? Give -p PID")
	}
	if len(args) > 1 {
		return nil, nil, usage.Errorf("doctor takes one SPEC")
	}
	if len(args) == 1 {
		s, err := target.ParseSpec(args[0])
		if err != nil {
			return nil, nil, usage.Errorf("%w", err)
		}
		spec = &s
	}
	return pids, spec, nil
}

// shown reports whether a finding is printed.
func (d *diagnosis) shown(f doctor.Finding) bool { return d.verbose || f.Level != doctor.Fine }

func (d *diagnosis) json(out *bufio.Writer, findings []doctor.Finding) error {
	encoder := render.NewEncoder(out)
	for _, f := range findings {
		if !d.shown(f) {
			continue
		}
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func (d *diagnosis) text(out *bufio.Writer, findings []doctor.Finding, pid int, spec *target.Spec) {
	for _, f := range findings {
		if !d.shown(f) {
			continue
		}
		fmt.Fprintf(out, "%-5s  %s\n", f.Level, render.Printable(f.Says))
		if f.Cure != "" {
			fmt.Fprintf(out, "       %s\n", render.Printable(f.Cure))
		}
	}
	what, probes := "any probe", "'*:*'"
	if spec != nil {
		what, probes = spec.String(), "'"+spec.String()+"'"
	}
	switch doctor.Status(findings) {
	case 0:
		fmt.Fprintf(out, "Nothing keeps a tracer from seeing %s of process %d. If no event is shown, the code does not fire.\n"+
			"To count for ten seconds how often it does: stapsdt count -p %d %s -d 10s\n", render.Printable(what), pid, pid, render.Printable(probes))
	case doctor.StatusLimit:
		fmt.Fprintf(out, "Tracers other than these see %s of process %d, if the code fires.\n", render.Printable(what), pid)
	}
}

//go:build linux

package doctor

import (
	"bufio"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// Report prints findings.
type Report struct {
	// JSON prints an object per finding.
	JSON bool
	// Verbose includes the findings that need no action.
	Verbose bool
}

// Write writes the findings about the probes of a process: all, or those that a spec names.
func (r *Report) Write(to io.Writer, findings []Finding, pid int, spec *target.Spec) (err error) {
	out := bufio.NewWriter(to)
	if r.JSON {
		err = r.json(out, findings)
	} else {
		r.text(out, findings, pid, spec)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// shown reports whether a finding is printed.
func (r *Report) shown(f Finding) bool { return r.Verbose || f.Level != Fine }

func (r *Report) json(out *bufio.Writer, findings []Finding) error {
	encoder := render.NewEncoder(out)
	for _, f := range findings {
		if !r.shown(f) {
			continue
		}
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) text(out *bufio.Writer, findings []Finding, pid int, spec *target.Spec) {
	for _, f := range findings {
		if !r.shown(f) {
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
	switch Status(findings) {
	case 0:
		fmt.Fprintf(out, "Nothing keeps a tracer from seeing %s of process %d. If no event is shown, the code does not fire.\n"+
			"To count for ten seconds how often it does: stapsdt count -p %d %s -d 10s\n", render.Printable(what), pid, pid, render.Printable(probes))
	case StatusLimit:
		fmt.Fprintf(out, "Tracers other than these see %s of process %d, if the code fires.\n", render.Printable(what), pid)
	}
}

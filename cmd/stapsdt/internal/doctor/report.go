//go:build linux

package doctor

import (
	"bufio"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
)

// Write writes the findings about the probes of a process: all probes, or the probes that a spec selects. With asJSON, each is an
// object. With verbose, the findings that need no action are included.
func Write(to io.Writer, findings []Finding, pid int, spec *spec.Spec, asJSON, verbose bool) error {
	out := bufio.NewWriter(to)
	encoder := render.NewEncoder(out)
	for _, f := range findings {
		switch {
		case f.Level == Fine && !verbose:
		case asJSON:
			if err := encoder.Encode(f); err != nil {
				return err
			}
		default:
			fmt.Fprintf(out, "%-5s  %s\n", f.Level, render.Printable(f.Says))
			if f.Cure != "" {
				fmt.Fprintf(out, "       %s\n", render.Printable(f.Cure))
			}
		}
	}
	if Status(findings) == 0 && !asJSON {
		what, probes := "any probe", "'*:*'"
		if spec != nil {
			what, probes = spec.String(), "'"+spec.String()+"'"
		}
		fmt.Fprintf(out, "Nothing keeps stapsdt from seeing %s of process %d. If no event is shown, the code does not fire.\n"+
			"To count for ten seconds how often it does: stapsdt count -p %d %s -d 10s\n", render.Printable(what), pid, pid, render.Printable(probes))
	}
	return out.Flush()
}

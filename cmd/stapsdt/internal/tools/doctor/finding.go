//go:build linux

package doctor

import (
	"bufio"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// Level is the severity of a finding.
type Level string

const (
	// Fault keeps the selected probes from being traced.
	Fault Level = "fault"
	// Note can mislead a user although tracing works.
	Note Level = "note"
	// Fine means that the check found nothing wrong.
	Fine Level = "fine"
)

// Finding is the result of a check.
type Finding struct {
	Cause   string `json:"cause" doc:"short name"`
	Level   Level  `json:"level" doc:"severity" enum:"fault note fine"`
	Message string `json:"message" doc:"what was found, in one or more sentences"`
	Remedy  string `json:"remedy,omitempty" doc:"how to fix it"`
	See     string `json:"see" doc:"section of the guide"`

	status int
}

// The exit statuses of a diagnosis. Other commands use all of them except StatusFault.
const (
	StatusNothing = 3 // no such process or probe
	StatusRights  = 4
	StatusFault   = 6
)

// Status returns the exit status of the first fault, or 0 without one.
func Status(findings []Finding) int {
	for _, f := range findings {
		if f.Level == Fault {
			return f.status
		}
	}
	return 0
}

func fault(status int, message, remedy string) []Finding {
	return []Finding{{Level: Fault, Message: message, Remedy: remedy, status: status}}
}

func note(message, remedy string) []Finding {
	return []Finding{{Level: Note, Message: message, Remedy: remedy}}
}
func fine(message string) []Finding { return []Finding{{Level: Fine, Message: message}} }

// Write writes the findings about the probes of a process: all probes, or the probes that a spec
// selects. In JSON, each is an object. With verbose, the findings that need no action are included.
func Write(
	to io.Writer, findings []Finding, pid int, spec *spec.Spec, format query.Format, verbose bool,
) error {
	out := bufio.NewWriter(to)
	encoder := render.NewEncoder(out)
	for _, f := range findings {
		switch {
		case f.Level == Fine && !verbose:
		case format.IsJSON():
			if err := encoder.Encode(f); err != nil {
				return err
			}
		default:
			fmt.Fprintf(out, "%-5s  %s\n", f.Level, render.Printable(f.Message))
			if f.Remedy != "" {
				fmt.Fprintf(out, "       %s\n", render.Printable(f.Remedy))
			}
		}
	}
	if Status(findings) == 0 && !format.IsJSON() {
		what, probes := "any probe", "'*:*'"
		if spec != nil {
			what, probes = spec.String(), "'"+spec.String()+"'"
		}
		fmt.Fprintf(out, "Nothing keeps stapsdt from seeing %s of process %d. If no event is shown, the code does not fire.\n"+
			"To count for ten seconds how often it does: stapsdt count -p %d %s -d 10s\n", render.Printable(what), pid, pid, render.Printable(probes))
	}
	return out.Flush()
}

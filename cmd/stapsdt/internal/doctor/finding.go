//go:build linux

package doctor

// Level is the severity of a finding.
type Level string

const (
	// Fault keeps the selected probes from being traced.
	Fault Level = "fault"
	// Note can lead a user astray while tracing works.
	Note Level = "note"
	// Fine means that the check found nothing wrong.
	Fine Level = "fine"
)

// Finding is the result of a check.
type Finding struct {
	Cause string `json:"cause"`
	Level Level  `json:"level"`
	// Says describes the finding in one or more sentences. Cure says how to mend it, or is "".
	Says string `json:"says"`
	Cure string `json:"cure,omitempty"`
	// See is the section of docs/nothing-shows.md on the cause.
	See string `json:"see"`

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

func fault(status int, says, cure string) []Finding {
	return []Finding{{Level: Fault, Says: says, Cure: cure, status: status}}
}

func note(says, cure string) []Finding { return []Finding{{Level: Note, Says: says, Cure: cure}} }
func fine(says string) []Finding       { return []Finding{{Level: Fine, Says: says}} }

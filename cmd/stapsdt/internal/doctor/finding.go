//go:build linux

package doctor

// Level is how much a finding matters.
type Level string

const (
	// Fault keeps every tracer, or what was asked for, from seeing an event.
	Fault Level = "fault"
	// Limit keeps some tracers from seeing events, or some ways to attach them.
	Limit Level = "limit"
	// Note is what can lead a user astray while tracers work.
	Note Level = "note"
	// Fine is what was looked at and is as it should be, or does not matter.
	Fine Level = "fine"
)

// Finding is the result of a check.
type Finding struct {
	Cause string `json:"cause"`
	Level Level  `json:"level"`
	// Says is one sentence or more, and Cure is what to do about it, or "".
	Says string `json:"says"`
	Cure string `json:"cure,omitempty"`
	// See is the section of docs/nothing-shows.md on the cause.
	See string `json:"see"`

	status int
}

// The statuses of a diagnosis beyond those that every command has.
const (
	StatusNothing = 3 // no such process or probe
	StatusRights  = 4
	StatusFault   = 6
	StatusLimit   = 7
)

// Status returns the exit status for findings: that of the first fault, StatusLimit if there
// are only limits, and 0 if there is neither.
func Status(findings []Finding) int {
	status := 0
	for _, f := range findings {
		switch f.Level {
		case Fault:
			return f.status
		case Limit:
			status = StatusLimit
		}
	}
	return status
}

// The results of checks.

func fault(status int, says, cure string) Finding {
	return Finding{Level: Fault, Says: says, Cure: cure, status: status}
}

func limit(says, cure string) Finding { return Finding{Level: Limit, Says: says, Cure: cure} }
func note(says, cure string) Finding  { return Finding{Level: Note, Says: says, Cure: cure} }
func fine(says string) []Finding      { return []Finding{{Level: Fine, Says: says}} }

//go:build linux

package rules

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"

	"go.yaml.in/yaml/v3"
)

// IsFunction reports whether the probe of a rule is go:PATTERN, the functions of a Go program.
func IsFunction(probe string) bool {
	s, err := spec.Parse(probe)
	return err == nil && s.Functions
}

// Functions reports whether the metric is about functions.
func (m *Metric) Functions() bool {
	return IsFunction(m.Probe) || IsFunction(m.Start) || IsFunction(m.End)
}

// Calls returns the spec of the functions whose calls a metric measures, from the call to its
// return. ok is false if it measures something else.
func (m *Metric) Calls() (spec string, ok bool) {
	return m.Start, m.Kind == Duration && m.Key == query.Call && IsFunction(m.Start)
}

// calls reads the functions of a duration: their calls are the starts, and their returns the ends.
func (r *reader) calls(fields map[string]*yaml.Node, m *Metric) {
	for _, key := range []string{"start", "end", "key"} {
		if fields[key] != nil {
			r.errorf(fields[key], "a call is paired with its return: leave out %s", key)
		}
	}
	if name, returns := strings.CutSuffix(m.Probe, spec.ReturnSuffix); returns {
		r.errorf(fields["probe"], "a duration pairs calls with their returns: give %s", name)
	}
	m.Probe, m.Start, m.End, m.Key = "", m.Probe, m.Probe+spec.ReturnSuffix, query.Call
}

// notInFlight reports functions in a metric of operations in flight. A call that a panic unwinds
// has no return, and would be in flight for ever.
func (r *reader) notInFlight(fields map[string]*yaml.Node, m *Metric) {
	for _, of := range [][2]string{{"probe", m.Probe}, {"start", m.Start}, {"end", m.End}} {
		if IsFunction(of[1]) {
			r.errorf(fields[of[0]], "calls in flight cannot be counted, because calls that a panic unwinds do not return")
		}
	}
}

// functions checks that a rule for functions names the executable: the functions of all programs
// on the machine are too many to look through.
func (r *reader) functions(fields map[string]*yaml.Node, s *Select, probes ...string) {
	for _, probe := range probes {
		if !IsFunction(probe) || strings.Trim(s.Executable, "*") != "" {
			continue
		}
		n := fields["probe"]
		for _, key := range []string{"start", "end"} {
			if n == nil {
				n = fields[key]
			}
		}
		r.errorf(n, "%q selects functions: name the program with executable", probe)
		return
	}
}

// openFunction reports whether a spec is a pattern for the names of functions.
func openFunction(probe string) bool {
	s, err := spec.Parse(probe)
	return err == nil && s.Functions && s.Pattern.IsGlob()
}

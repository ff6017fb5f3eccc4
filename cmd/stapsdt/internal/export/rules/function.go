//go:build linux

package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"

	"go.yaml.in/yaml/v3"
)

// Functions reports whether the metric is about functions.
func (m *Metric) Functions() bool {
	return m.Probe.Functions || m.Start.Functions || m.End.Functions
}

// call is the key of the calls of functions.
var call = []string{query.Call}

// Calls returns the spec of the functions whose calls a metric measures, from the call to its
// return. ok is false if it measures something else.
func (m *Metric) Calls() (calls spec.Spec, ok bool) {
	return m.Start, m.Kind == Duration && m.Start.Functions && slices.Equal(m.Key, call)
}

// calls reads the functions of a duration: their calls are the starts, and their returns the ends.
func (r *reader) calls(fields map[string]*yaml.Node, m *Metric) {
	for _, key := range []string{"start", "end", "key"} {
		if fields[key] != nil {
			r.errorf(fields[key], "a call is paired with its return: leave out %s", key)
		}
	}
	if m.Probe.IsLine() {
		r.errorf(fields["probe"], "a line has no duration: give start and end")
	}
	if m.Probe.Returns {
		r.errorf(fields["probe"], "a duration pairs calls with their returns: give %s", m.Probe.Calls())
	}
	m.Start, m.End, m.Key = m.Probe, m.Probe.Suffixed(spec.ReturnSuffix), call
	m.Probe = spec.Spec{}
}

// notInFlight reports functions in a metric of operations in flight. A call that a panic unwinds
// has no return, and would be in flight forever.
func (r *reader) notInFlight(fields map[string]*yaml.Node, m *Metric) {
	for i, one := range []spec.Spec{m.Probe, m.Start, m.End} {
		if one.Functions {
			r.errorf(fields[probeKeys[i]], "calls in flight cannot be counted, because calls that a panic unwinds do not return")
		}
	}
}

// functions checks that a rule for functions names the executable: the functions of all programs
// on the machine are too many to look through.
func (r *reader) functions(fields map[string]*yaml.Node, s *Select, probes ...spec.Spec) {
	for _, probe := range probes {
		if !probe.Functions || strings.Trim(s.Executable, "*") != "" {
			continue
		}
		n := cmp.Or(fields["probe"], fields["start"], fields["end"])
		r.errorf(n, "%q selects functions: name the program with executable", probe)
		return
	}
}

package spec

import "strings"

// StartSuffix and EndSuffixes end the names of the probes of an operation.
const StartSuffix = "__start"

// EndSuffixes are the two names of the end of an operation.
var EndSuffixes = [2]string{"__end", "__done"}

// NameOf returns the name of the operation that a probe starts or ends, or "".
func NameOf(probe string) (name string, isStart bool) {
	if name, ok := strings.CutSuffix(probe, StartSuffix); ok {
		return name, true
	}
	for _, suffix := range EndSuffixes {
		if name, ok := strings.CutSuffix(probe, suffix); ok {
			return name, false
		}
	}
	return "", false
}

// OperationOf is NameOf for the probes of any provider: the name of a function is that of the
// operation between its call and its return.
func OperationOf(provider, probe string) (name string, isStart bool) {
	if provider != FunctionProvider {
		return NameOf(probe)
	}
	name, returns := strings.CutSuffix(probe, ReturnSuffix)
	return name, !returns
}

// OfCalls returns the spec of the calls whose returns a spec selects.
func (s Spec) OfCalls() Spec {
	s.Probe, s.text = strings.TrimSuffix(s.Probe, ReturnSuffix), s.Calls()
	s.Returns = false
	return s
}

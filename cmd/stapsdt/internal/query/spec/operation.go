package spec

import (
	"fmt"
	"strings"
)

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

// LinePair is an operation from one line to another.
type LinePair struct{ Start, End Spec }

// LinePairs returns the operations that lines, two for each, start and end.
func LinePairs(lines []Choice) (pairs []LinePair, err error) {
	seen := map[string]bool{}
	for i := range lines {
		line := lines[i].Spec
		if i%2 == 0 && i+1 == len(lines) {
			return nil, fmt.Errorf("a line has no end: give a second SPEC after %v, such as that of a later line", line)
		}
		if seen[line.Probe] {
			return nil, fmt.Errorf("%v is given twice: a line starts one operation, or ends one", line)
		}
		seen[line.Probe] = true
		if i%2 == 1 {
			pairs = append(pairs, LinePair{lines[i-1].Spec, line})
		}
	}
	return pairs, nil
}

// Is reports whether a probe is the start or the end of the operation.
func (p *LinePair) Is(provider, probe string) (is, isStart bool) {
	isStart = p.Start.Match(provider, probe)
	return isStart || p.End.Match(provider, probe), isStart
}

// String returns the name of the operation, such as go:cart.go:21-28.
func (p *LinePair) String() string {
	if p.Start.Pattern == p.End.Pattern {
		return fmt.Sprintf("%s:%s-%v", FunctionProvider, p.Start.Probe, p.End.Lines)
	}
	return fmt.Sprintf("%s:%s-%s", FunctionProvider, p.Start.Probe, p.End.Probe)
}

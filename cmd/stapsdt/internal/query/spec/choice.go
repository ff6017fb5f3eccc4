package spec

import "fmt"

// Choice is a spec with an alternative, if it has one: the end of an operation is __end or __done.
type Choice struct {
	Spec
	Other Spec // zero if there is none
}

// ParseChoice parses a spec and its alternative, which is "" if there is none.
func ParseChoice(text, other string) (c Choice, err error) {
	if c.Spec, err = Parse(text); err == nil && other != "" {
		c.Other, err = Parse(other)
	}
	return c, err
}

// Match reports whether the spec or its alternative matches a probe.
func (c *Choice) Match(provider, probe string) bool {
	return c.Spec.Match(provider, probe) || c.Other.Probe != "" && c.Other.Match(provider, probe)
}

// IsStart reports whether a probe is the start of an operation, and not the end.
func IsStart(start, end *Choice, provider, probe string) (bool, error) {
	isStart := start.Match(provider, probe)
	if isStart && end.Match(provider, probe) {
		return false, fmt.Errorf("both %v and %v name it", start, end)
	}
	return isStart, nil
}

//go:build linux

package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// by returns "sum by (LABELS) (RATE)".
func by(labels []string, vector string) string {
	if len(labels) == 0 {
		return fmt.Sprintf("sum(%s)", vector)
	}
	return fmt.Sprintf("sum by (%s) (%s)", strings.Join(labels, ", "), vector)
}

// programs returns the label that distinguishes programs, if the metric has it.
func (m *Metric) programs() []string {
	if slices.Contains(m.Process, Executable) {
		return []string{Executable}
	}
	return nil
}

// labelNames returns the labels of a metric without the labels of containers.
func (m *Metric) labelNames() []string {
	names := m.programs()
	for _, l := range m.By {
		names = append(names, l.Name)
	}
	return append(names, m.OpenLabels()...)
}

// quantile returns a query for a quantile of a histogram.
func (m *Metric) quantile(q float64, window string) string {
	name, labels := m.Name, m.programs()
	if !m.Native {
		name, labels = name+"_bucket", append([]string{"le"}, labels...)
	}
	return fmt.Sprintf("histogram_quantile(%v, %s)", q, by(labels, fmt.Sprintf("rate(%s[%s])", name, window)))
}

// failures returns a matcher for the series of failures, if a label distinguishes them.
func (m *Metric) failures() string {
	for _, l := range m.By {
		switch strings.ToLower(l.Name) {
		case "status", "code", "status_code":
			return l.Name + `=~"5.."`
		case "class":
			return l.Name + `="5"`
		case "error", "err":
			return l.Name + `!=""`
		case "failed":
			return l.Name + `="true"`
		}
	}
	return ""
}

var failure = regexp.MustCompile(`(?i)err|fail|panic|abort|reject|timeout|dropped|>= *500`)

// allFailures reports whether every event of a metric seems to be a failure.
func (m *Metric) allFailures() bool {
	return failure.MatchString(m.Name) || failure.MatchString(m.Where) ||
		failure.MatchString(m.Probe.String())
}

// events returns the name of the series that counts a metric's events. It returns "" if no series does, or only a
// series that some formats lack.
func (m *Metric) events() string {
	switch {
	case m.Kind == Counter && m.Value == "":
		return m.Name
	case (m.Kind == Histogram || m.Kind == Duration) && !m.Native:
		return m.Name + "_count"
	}
	return ""
}

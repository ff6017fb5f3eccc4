//go:build linux

package rules

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"go.yaml.in/yaml/v3"
)

// unitOf maps base units to the factors of other units, by the last word of a value's name.
var unitOf = map[string]map[string]float64{
	"seconds": {
		"ns": 1e-9, "nanos": 1e-9, "nanoseconds": 1e-9,
		"us": 1e-6, "micros": 1e-6, "microseconds": 1e-6,
		"ms": 1e-3, "millis": 1e-3, "milliseconds": 1e-3,
		"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400,
	},
	"bytes": {
		"bytes": 1, "kilobytes": 1e3, "megabytes": 1e6, "gigabytes": 1e9,
		"kibibytes": 1 << 10, "mebibytes": 1 << 20, "gibibytes": 1 << 30,
	},
}

var word = lazyregexp.New(`^[a-z][a-z0-9_]*$`)

// scale reads the unit of a metric, and the factor that converts a value to it.
func (r *reader) scale(fields map[string]*yaml.Node, m *Metric) {
	m.Unit, m.Scale = r.unit(fields["unit"]), 1
	if m.Kind == Duration {
		if m.Unit != "" && m.Unit != "seconds" {
			r.errorf(fields["unit"], "the unit of a duration is seconds, and need not be given")
		}
		m.Unit, m.Scale = "seconds", 1e-9
	}
	if m.Value == "" {
		for _, key := range []string{"unit", "scale"} {
			if n := fields[key]; n != nil &&
				(m.Kind == InFlight || m.Kind == Counter || key == "scale") {
				r.errorf(n, "this metric has no %s: it counts, or measures time", key)
			}
		}
		if m.Kind != Duration {
			m.Unit = ""
		}
		return
	}
	switch n := fields["scale"]; {
	case n != nil:
		if m.Scale = r.number(n); m.Scale <= 0 {
			r.errorf(n, "scale must be a number above 0, such as 1e-6")
		}
	case m.Unit != "":
		m.Scale = inferred(m.Value, m.Unit)
	}
}

// unit reads the name of a unit. A unit of time or size must be a base unit.
func (r *reader) unit(n *yaml.Node) string {
	unit := r.text(n)
	if unit != "" && !word().MatchString(unit) {
		r.errorf(n, "%q is not a valid unit: use a word of lower-case letters, such as seconds or bytes", unit)
		return ""
	}
	for base, others := range unitOf {
		if _, ok := others[unit]; ok && unit != base {
			r.errorf(n, "metrics are in base units: give unit: %s", base)
			return base
		}
	}
	return unit
}

// inferred returns the factor that converts a value to a unit, by the last word of the value's
// name. It returns 0 if that is not a unit of time, and 1 if the metric has another unit.
func inferred(value, unit string) float64 {
	if identifier().MatchString(value) {
		last := strings.ToLower(value[strings.LastIndexByte(value, '_')+1:])
		if factor, ok := unitOf[unit][last]; ok {
			return factor
		}
	}
	if unit == "seconds" {
		return 0
	}
	return 1
}

// number reads a number. It returns NaN if the node is not a number.
func (r *reader) number(n *yaml.Node) float64 {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		r.errorf(n, "this must be a number")
		return math.NaN()
	}
	return v
}

// maxBounds is the maximum number of bounds of a histogram.
const maxBounds = 100

// The default bounds of histograms: for seconds the bounds of Prometheus's libraries, and for bytes
// powers of 4 from 64 bytes to 1 GiB.
var defaultBounds = map[string][]float64{
	"seconds": {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	"bytes": {
		1 << 6,
		1 << 8,
		1 << 10,
		1 << 12,
		1 << 14,
		1 << 16,
		1 << 18,
		1 << 20,
		1 << 22,
		1 << 24,
		1 << 26,
		1 << 28,
		1 << 30,
	},
}

// buckets reads the buckets of a histogram.
func (r *reader) buckets(rule *yaml.Node, fields map[string]*yaml.Node, m *Metric) {
	n := fields["buckets"]
	if m.Kind != Histogram && m.Kind != Duration {
		if n != nil {
			r.errorf(n, "a metric with %s has no buckets", kindKeys[m.Kind])
		}
		return
	}
	switch {
	case n == nil:
		if m.Bounds = slices.Clone(defaultBounds[m.Unit]); m.Bounds == nil {
			r.errorf(rule, "buckets are missing: give unit: seconds or unit: bytes, a list of buckets, or buckets: native")
		}
	case n.Value == "native":
		m.Native = true
	case n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxBounds:
		r.errorf(n, "buckets must be native, or a list of 1 to %d upper bounds in the metric's unit", maxBounds)
	default:
		r.bounds(n, m)
	}
}

func (r *reader) bounds(n *yaml.Node, m *Metric) {
	for _, element := range r.list(n, "buckets") {
		bound := r.number(element)
		if math.IsNaN(bound) {
			continue
		}
		if last := len(m.Bounds) - 1; last >= 0 && bound <= m.Bounds[last] {
			r.errorf(element, "the bounds of buckets must rise, but %v follows %v", bound, m.Bounds[last])
			continue
		}
		m.Bounds = append(m.Bounds, bound)
	}
}

//go:build linux

// Package rules reads the file that defines the metrics and spans of probes.
package rules

import (
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// File is a file of rules.
type File struct {
	Metrics []Metric
	Spans   []Span
	// Budget is the share of the processor time of a program's processes that the probes of its
	// functions may take.
	Budget float64
}

// defaultBudget is the budget of a file that sets none.
const defaultBudget = 0.01

// Functions reports whether a rule selects functions.
func (f *File) Functions() bool {
	return slices.ContainsFunc(f.Metrics, func(m Metric) bool { return m.Functions() }) ||
		slices.ContainsFunc(f.Spans, func(s Span) bool { return s.Probe.Functions })
}

// Metric is a rule for one metric. It counts the events of Probe, or the operations from an event
// of Start to an event of End.
type Metric struct {
	Name, Help string
	// Probe, Start and End have no file. They are zero if the metric has none.
	Probe, Start, End spec.Spec
	// Key lists what is equal at a start and its end: expressions, "goroutine" or "thread". The
	// default is "arg0".
	Key []string

	Kind Kind
	// Value is the expression that is summed, shown or divided into buckets. It is "" if events are
	// counted, and for Duration and InFlight.
	Value string
	// Scale is the factor that converts a value to Unit. It is 0 if neither the file nor the name
	// of the value defines it. Value must then be a time.Duration, which is in nanoseconds.
	Scale float64
	// Unit is the unit of the metric, such as "seconds", or "".
	Unit string
	// Bounds are the upper bounds of the buckets in Unit, in order and without +Inf. They are
	// nil for a native histogram.
	Bounds []float64
	Native bool

	By    []Label
	Where string // a condition, or ""
	Select
	// Process lists the labels that identify the process, from ProcessLabels.
	Process []string
	// PodIDs reports whether containers of pods have the label container_id too, although their
	// names distinguish them.
	PodIDs bool
	// Series is the maximum number of combinations of labels.
	Series int
	// Expire is the time for which a series without events is kept, or 0 if series do not
	// expire.
	Expire time.Duration
}

// Kind is the kind of a metric.
type Kind int

// The kinds.
const (
	Counter   Kind = iota // the number of events, or the sum of their values
	Gauge                 // the latest value
	Histogram             // the distribution of a value
	Duration              // a histogram of the time from Start to End, in nanoseconds
	InFlight              // the number of operations that have started and not ended
)

// Label is a label with the value of an expression.
type Label struct{ Name, Expr string }

// Select selects processes. An empty field selects all.
type Select struct {
	// Executable is a pattern for the name of the program's file, without its directory.
	Executable string
	// Cgroup is a pattern for the path of the control group, in which * matches slashes too.
	Cgroup string
	// User is a user's name or UID.
	User string
}

// Span is a rule for the spans of a probe's __start and __end, as package span fires them.
type Span struct {
	// Probe is PROVIDER:NAME without __start and __end.
	Probe spec.Spec
	Where string // a condition on the end's arguments, or ""
	Select
}

//go:build linux

// Package rules reads the file that says which metrics and spans are made of which probes.
package rules

import "time"

// File is a file of rules.
type File struct {
	Metrics []Metric
	Spans   []Span
}

// Metric is a rule for one metric. It counts the events of Probe, or the operations that
// begin with an event of Start and end with one of End.
type Metric struct {
	Name, Help string
	// Probe, Start and End are PROVIDER:PROBE, and may contain patterns.
	Probe, Start, End string
	// Key is what a start and its end have in common: an expression, or "goroutine" or
	// "thread". It is "arg0" if the file does not say.
	Key string

	Kind Kind
	// Value is the expression that is added up, shown or divided into buckets. It is "" if
	// events are counted, and for Duration and InFlight.
	Value string
	// Scale is what a value is multiplied with to be in Unit. It is 0 if neither the file nor
	// the name of the value says it: then Value must be a time.Duration, which is in
	// nanoseconds.
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
	// Process are the labels that say who fired: of ProcessLabels.
	Process []string
	// PodIDs reports whether the label container_id is written for containers of pods, too, whose
	// names tell them apart.
	PodIDs bool
	// Series is how many combinations of labels are told apart.
	Series int
	// Expire is how long a series without events stays. It is 0 if series do not expire.
	Expire time.Duration
}

// Kind is the kind of a metric.
type Kind int

// The kinds.
const (
	Counter   Kind = iota // how many events, or the sum of their values
	Gauge                 // the latest value
	Histogram             // of a value
	Duration              // a histogram of the time from Start to End, in nanoseconds
	InFlight              // how many operations have started and not ended
)

// Label is a label, whose value is that of an expression.
type Label struct{ Name, Expr string }

// Select selects processes. An empty field selects all.
type Select struct {
	// Executable is a pattern for the name of the program's file, without its directory.
	Executable string
	// Cgroup is a pattern for the path of the control group, in which * matches slashes too.
	Cgroup string
	// User is a user's name or number.
	User string
}

// Span is a rule for the spans that a probe's __start and __end make, as package span
// fires them.
type Span struct {
	// Probe is PROVIDER:NAME without __start and __end, and may contain patterns.
	Probe string
	Where string // a condition of the end's arguments, or ""
	Select
}

//go:build linux

// Package expose shows metrics to Prometheus, and sends metrics and spans by OTLP.
package expose

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"

	dto "github.com/prometheus/client_model/go"
)

// The kinds of metrics.
const (
	Counter   = dto.MetricType_COUNTER
	Gauge     = dto.MetricType_GAUGE
	Histogram = dto.MetricType_HISTOGRAM
)

// ContainerID is the name of the label with the ID of a container. It is left out where it is empty.
const ContainerID = "container_id"

// Family is a metric, with all of its series.
type Family struct {
	Name, Help string
	Unit       string         // such as "seconds", or ""
	Kind       dto.MetricType // Counter, Gauge or Histogram
	Labels     []string       // their names
	// ContainerLabels are those of Labels that say which container it is. They are written though they are
	// empty, but for ContainerID. PerContainer says that they tell containers apart: by OTLP, each container
	// is then a resource of its own.
	ContainerLabels []string
	PerContainer    bool
	// Bounds are the upper bounds of a histogram's buckets, in order and without +Inf. A native
	// histogram has none, and is of schema 3.
	Bounds []float64
	Native bool
	Series []Series
}

// Series are the numbers for one combination of labels.
type Series struct {
	// Values are those of Family.Labels. They come from traced programs: they can be hostile,
	// and need not be UTF-8. They are unique in a Family after ToValidUTF8.
	Values []string
	// Container is the one whose events these are, or zero: outside of containers, and where the labels do
	// not tell containers apart.
	Container cgroup.Container
	// Overflow says that this is what had no room in a series of its own. Values is nil.
	Overflow bool

	Value float64 // of a counter or a gauge

	// Count, Sum and Buckets are of a histogram. Buckets are not cumulative: there is one more
	// than there are Bounds.
	Count   uint64
	Sum     float64
	Buckets []uint64
	// Zero and Exponential are those of a native histogram: the values of at most 0, and the
	// others by the indices of their buckets. The bucket i has the values above
	// 2^((i-1)/8) and up to 2^(i/8).
	Zero        uint64
	Exponential map[int]uint64

	Created   time.Time // when counting began
	Exemplars []Exemplar
}

// Exemplar is one event of a histogram.
type Exemplar struct {
	Value  float64
	Time   time.Time
	SpanID uint64
}

// Source has metrics.
type Source interface {
	// Collect reads the metrics. It may be called at any time, by any goroutine.
	Collect() ([]Family, error)
}

// Span is an operation that has ended. All texts can be hostile, and need not be UTF-8.
type Span struct {
	Provider, Name string // "shop", "request"
	// TraceID is 16 bytes; SpanID and Parent are never 0, but for the Parent of a root.
	TraceID        [16]byte
	SpanID, Parent uint64
	Start, End     time.Time
	// Error is what the end said, or "".
	Error      string
	Attributes []Attribute

	Executable string // "" if unknown
	Container  cgroup.Container
	PID        int
}

// Attribute is an argument of a probe.
type Attribute struct {
	Name string
	// Value is an int64, uint64, float64, bool or string.
	Value any
}

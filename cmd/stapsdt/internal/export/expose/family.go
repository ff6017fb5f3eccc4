//go:build linux

// Package expose serves metrics to Prometheus, and sends metrics and spans by OTLP.
package expose

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"

	dto "github.com/prometheus/client_model/go"
)

// The kinds of metrics.
const (
	Counter   = dto.MetricType_COUNTER
	Gauge     = dto.MetricType_GAUGE
	Histogram = dto.MetricType_HISTOGRAM
)

// The names of the labels with the ID of a container, with the workload of a pod, and with the
// program. A series lacks such a label if the value is empty.
const (
	ContainerID = "container_id"
	Workload    = "workload"
	Executable  = "executable"
)

// Family is a metric, with all of its series.
type Family struct {
	Name, Help string         // the name of a counter ends in _total
	Unit       string         // such as "seconds", or ""
	Kind       dto.MetricType // Counter, Gauge or Histogram
	Labels     []string       // the names of the labels
	// ContainerLabels are the Labels that name the container. Only ContainerID and Workload are
	// left out if they are empty. PerContainer reports whether they distinguish containers, so that
	// each is an OTLP resource.
	ContainerLabels []string
	PerContainer    bool
	// Bounds are the upper bounds of a histogram's buckets, in order and without +Inf. A native
	// histogram has none; its schema is 3.
	Bounds []float64
	Native bool
	Series []Series
}

// Series holds the numbers for one combination of labels.
type Series struct {
	// Values are the values of Family.Labels, in valid UTF-8. They come from traced programs, and
	// can be hostile.
	Values []string
	// Container is the container of the events. It is zero outside of containers, and if the labels
	// do not distinguish containers.
	Container cgroup.Container
	// Overflow marks the series of all events without room in a series of their own. Its Values are
	// nil.
	Overflow bool

	Value float64 // the value of a counter or a gauge

	// Sum and Buckets describe a histogram. Buckets are not cumulative, and there is one more than
	// Bounds.
	Sum     float64
	Buckets []uint64
	// Zero and Exponential count the values of a native histogram: values up to 0, and values by
	// the indexes of buckets. Bucket i has the values above 2^((i-1)/8) and up to 2^(i/8).
	Zero        uint64
	Exponential map[int]uint64

	// when counting began: always set for a histogram, and otherwise if it is known
	Created   time.Time
	Exemplars []Exemplar
}

// Exemplar is one event of a histogram.
type Exemplar struct {
	Value  float64
	Time   time.Time
	SpanID uint64
}

// Collector is a source of metrics.
type Collector interface {
	// Collect reads the metrics. It may be called at any time, by any goroutine.
	Collect() ([]Family, error)
}

// Span is an operation that has ended. All strings can be hostile, and may be invalid UTF-8.
type Span struct {
	Provider, Name string // "shop", "request"
	// SpanID is never 0. Parent is 0 only for a root.
	TraceID        [16]byte
	SpanID, Parent uint64
	Start, End     time.Time
	// Error is the error of the end, or "".
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

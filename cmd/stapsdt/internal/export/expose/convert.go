//go:build linux

package expose

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

const (
	// overflowLabel is the label of the series that counts the events beyond the limit of series.
	overflowLabel = "otel_metric_overflow"
	// exemplarLabel is the name that OpenMetrics recommends for the ID of a span.
	exemplarLabel = "span_id"
	// schema of native histograms: each power of two is divided into 2^3 buckets.
	schema = 3
)

// merged returns the series, sorted by their labels. It adds up series with the same labels, as
// those of a container that was restarted, because Prometheus refuses duplicates.
func merged(f *Family) (all []*Series) {
	sorted := make([]*Series, len(f.Series))
	for i := range f.Series {
		sorted[i] = &f.Series[i]
	}
	if !slices.IsSortedFunc(sorted, (*Series).Compare) {
		slices.SortStableFunc(sorted, (*Series).Compare)
	}
	all = sorted[:0]
	var sum *Series // the last series, if it is a sum
	for _, s := range sorted {
		last := len(all) - 1
		if last < 0 || all[last].Compare(s) != 0 {
			all = append(all, s)
			continue
		}
		if all[last] != sum {
			sum = new(Series)
			*sum = *all[last]
			all[last] = sum
		}
		sum.add(s)
	}
	return all
}

// Compare compares the labels of two series of a family. The overflow is the smallest. Of two
// values of which one begins with the other, the longer one is the smaller, unless they are the
// last.
func (s *Series) Compare(t *Series) int {
	if s.Overflow || t.Overflow {
		return cmp.Compare(truth(t.Overflow), truth(s.Overflow))
	}
	for i, a := range s.Values[:min(len(s.Values), len(t.Values))] {
		b := t.Values[i]
		if a == b {
			continue
		}
		switch {
		case strings.HasPrefix(b, a) && i < len(s.Values)-1:
			return 1
		case strings.HasPrefix(a, b) && i < len(t.Values)-1:
			return -1
		}
		return strings.Compare(a, b)
	}
	return cmp.Compare(len(s.Values), len(t.Values))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// add adds the numbers of another series of the family. It does not write to memory that s shares
// with other series.
func (s *Series) add(t *Series) {
	s.Value += t.Value
	s.Sum += t.Sum
	s.Zero += t.Zero
	s.Buckets = slices.Clone(s.Buckets)
	for i, n := range t.Buckets {
		s.Buckets[i] += n
	}
	s.Exponential = maps.Clone(s.Exponential)
	for i, n := range t.Exponential {
		s.Exponential[i] += n
	}
	s.Exemplars = slices.Concat(s.Exemplars, t.Exemplars)
	if t.Created.Before(s.Created) {
		s.Created = t.Created
	}
}

// labels returns the labels of a series. The overflow has one label instead of the others. Labels
// of containers can be empty, because Prometheus would otherwise add its own.
func (f *Family) labels(s *Series) (names, values []string) {
	names, values = make([]string, 0, len(f.Labels)+1), make([]string, 0, len(f.Labels)+1)
	for i, name := range f.Labels {
		isContainer, value := slices.Contains(f.ContainerLabels, name), ""
		if !s.Overflow {
			value = s.Values[i]
		}
		optional := name == ContainerID || name == Workload || name == Executable
		left := isContainer && value == "" && optional
		if left || s.Overflow && !isContainer {
			continue
		}
		names, values = append(names, name), append(values, value)
	}
	if s.Overflow {
		names, values = append(names, overflowLabel), append(values, overflowValue)
	}
	return names, values
}

// native converts a series of a native histogram. Its count is the sum of its buckets.
func (s *Series) native(f *Family, desc *prometheus.Desc) (prometheus.Metric, error) {
	_, values := f.labels(s)
	positive, count := make(map[int]int64, len(s.Exponential)), s.Zero
	for i, n := range s.Exponential {
		positive[i] = int64(n)
		count += n
	}
	m, err := prometheus.NewConstNativeHistogram(desc, count, s.Sum, positive, nil, s.Zero, schema,
		prometheus.DefNativeHistogramZeroThreshold, s.Created, values...)
	return infiniteBucket{m}, err
}

// withExemplars adds the exemplars of a series to a histogram.
func (s *Series) withExemplars(m prometheus.Metric) (prometheus.Metric, error) {
	// Prometheus expects them in order, and a bucket has its latest one.
	exemplars := make([]prometheus.Exemplar, len(s.Exemplars))
	byTime := func(a, b Exemplar) int { return a.Time.Compare(b.Time) }
	for i, e := range slices.SortedStableFunc(slices.Values(s.Exemplars), byTime) {
		labels := prometheus.Labels{exemplarLabel: fmt.Sprintf("%016x", e.SpanID)}
		exemplars[i] = prometheus.Exemplar{Value: e.Value, Timestamp: e.Time, Labels: labels}
	}
	return prometheus.NewMetricWithExemplars(m, exemplars...)
}

// infiniteBucket adds the classic bucket of all values to a native histogram. In older versions of
// Prometheus, and in OpenMetrics as text, only this bucket can have exemplars.
type infiniteBucket struct{ prometheus.Metric }

func (b infiniteBucket) Write(to *dto.Metric) error {
	err := b.Metric.Write(to)
	if h := to.Histogram; err == nil {
		infinite := proto.Float64(math.Inf(1))
		h.Bucket = []*dto.Bucket{{UpperBound: infinite, CumulativeCount: h.SampleCount}}
	}
	return err
}

// Repaired returns a text of a traced program as valid UTF-8, which Prometheus and OpenTelemetry
// require.
func Repaired(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

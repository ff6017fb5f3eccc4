//go:build linux

package expose

import (
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

// convert returns a family for Prometheus, or nil if it has no valid series, and the number of invalid ones.
func convert(f *Family) (family *dto.MetricFamily, invalid int) {
	family = &dto.MetricFamily{Name: &f.Name, Help: proto.String(Repaired(f.Help)), Type: f.Kind.Enum()}
	if f.Unit != "" {
		family.Unit = &f.Unit
	}
	d := descriptions{}
	for _, s := range merged(f) {
		m, err := f.metric(d, s)
		converted := &dto.Metric{}
		if err == nil {
			err = m.Write(converted)
		}
		if err != nil {
			invalid++
			continue
		}
		family.Metric = append(family.Metric, converted)
	}
	if len(family.Metric) == 0 {
		return nil, invalid
	}
	return family, invalid
}

// merged returns the series, sorted by their labels. It adds up series with the same labels, as those of a container that
// was restarted, because Prometheus refuses duplicates.
func merged(f *Family) (all []*Series) {
	found := make(map[string]*Series, len(f.Series))
	keys := make([]string, 0, len(f.Series))
	for i := range f.Series {
		s := f.Series[i]
		key := "" // the key of the overflow: other keys begin with the separator
		if !s.Overflow {
			key = separator + strings.Join(s.Values, separator)
		}
		if same := found[key]; same != nil {
			same.add(&s)
			continue
		}
		found[key] = &s
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		all = append(all, found[key])
	}
	return all
}

// separator occurs in no value, because it is not valid UTF-8.
const separator = "\xff"

// add adds the numbers of another series of the family. It does not write to memory that s shares with other series.
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

// descriptions holds the descriptions of a family's series, by their sets of labels.
type descriptions map[labelSet]*prometheus.Desc

// labelSet identifies the labels of a series: all labels, the label of the overflow, or all labels except an empty ContainerID.
type labelSet struct {
	labels   int
	overflow bool
}

func (f *Family) metric(d descriptions, s *Series) (prometheus.Metric, error) {
	if !s.Overflow && len(s.Values) != len(f.Labels) {
		return nil, fmt.Errorf("%d values for %d labels", len(s.Values), len(f.Labels))
	}
	names, values := f.labels(s)
	set := labelSet{len(names), s.Overflow}
	desc := d[set]
	if desc == nil {
		desc = prometheus.NewDesc(f.Name, "", names, nil)
		d[set] = desc
	}
	switch {
	case f.Kind == Gauge:
		return prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, values...)
	case f.Kind == Histogram:
		return f.histogram(desc, s, values)
	case s.Created.IsZero():
		return prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, values...)
	}
	return prometheus.NewConstMetricWithCreatedTimestamp(desc, prometheus.CounterValue, s.Value, s.Created, values...)
}

// labels returns the labels of a series. The overflow has one label instead of the others. Labels of containers can be
// empty, because Prometheus would otherwise add its own.
func (f *Family) labels(s *Series) (names, values []string) {
	names, values = make([]string, 0, len(f.Labels)+1), make([]string, 0, len(f.Labels)+1)
	for i, name := range f.Labels {
		isContainer, value := slices.Contains(f.ContainerLabels, name), ""
		if !s.Overflow {
			value = s.Values[i]
		}
		if s.Overflow && !isContainer || isContainer && name == ContainerID && value == "" {
			continue
		}
		names, values = append(names, name), append(values, value)
	}
	if s.Overflow {
		names, values = append(names, overflowLabel), append(values, "true")
	}
	return names, values
}

// histogram converts a series of a histogram. Its count is the sum of its buckets.
func (f *Family) histogram(desc *prometheus.Desc, s *Series, values []string) (m prometheus.Metric, err error) {
	count := s.Zero
	if f.Native {
		positive := make(map[int]int64, len(s.Exponential))
		for i, n := range s.Exponential {
			positive[i] = int64(n)
			count += n
		}
		m, err = prometheus.NewConstNativeHistogram(desc, count, s.Sum, positive, nil, s.Zero, schema, prometheus.DefNativeHistogramZeroThreshold, s.Created, values...)
		m = infiniteBucket{m}
	} else {
		cumulative := make(map[float64]uint64, len(f.Bounds))
		for i, n := range s.Buckets {
			count += n
			if i < len(f.Bounds) {
				cumulative[f.Bounds[i]] = count
			}
		}
		m, err = prometheus.NewConstHistogramWithCreatedTimestamp(desc, count, s.Sum, cumulative, s.Created, values...)
	}
	if err != nil || len(s.Exemplars) == 0 {
		return m, err
	}
	// Prometheus expects them in order, and a bucket has its latest one.
	exemplars := make([]prometheus.Exemplar, len(s.Exemplars))
	for i, e := range slices.SortedStableFunc(slices.Values(s.Exemplars), func(a, b Exemplar) int { return a.Time.Compare(b.Time) }) {
		exemplars[i] = prometheus.Exemplar{Value: e.Value, Timestamp: e.Time, Labels: prometheus.Labels{exemplarLabel: fmt.Sprintf("%016x", e.SpanID)}}
	}
	return prometheus.NewMetricWithExemplars(m, exemplars...)
}

// infiniteBucket adds the classic bucket of all values to a native histogram. In older versions of Prometheus, and in
// OpenMetrics as text, only this bucket can have exemplars.
type infiniteBucket struct{ prometheus.Metric }

func (b infiniteBucket) Write(to *dto.Metric) error {
	err := b.Metric.Write(to)
	if h := to.Histogram; err == nil {
		h.Bucket = []*dto.Bucket{{UpperBound: proto.Float64(math.Inf(1)), CumulativeCount: h.SampleCount}}
	}
	return err
}

// Repaired returns a text of a traced program as valid UTF-8, which Prometheus and OpenTelemetry
// require.
func Repaired(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

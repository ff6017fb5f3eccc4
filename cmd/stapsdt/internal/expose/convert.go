//go:build linux

package expose

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// overflowLabel is the name that OpenTelemetry gives to the attribute of what is beyond a
// bound.
const overflowLabel = "otel_metric_overflow"

// convert returns a family for Prometheus, or nil if no series of it is valid, and how many are
// not.
func convert(f *Family) (family *dto.MetricFamily, invalid int) {
	if !valid(f) {
		return nil, len(f.Series)
	}
	series, invalid := distinct(f)
	if len(series) == 0 {
		return nil, invalid
	}
	family = &dto.MetricFamily{Name: &f.Name, Help: pointer(repaired(f.Help)), Type: f.Kind.Enum()}
	if f.Unit != "" {
		family.Unit = &f.Unit
	}
	// OpenMetrics demands it, and the name must be the same in every format.
	if f.Kind == Counter && !strings.HasSuffix(f.Name, "_total") {
		family.Name = pointer(f.Name + "_total")
	}
	names := sortedNames(f.Labels)
	for _, s := range series {
		m := &dto.Metric{Label: labels(names, f.ContainerLabels, s)}
		switch f.Kind {
		case Counter:
			m.Counter = &dto.Counter{Value: &s.Value, CreatedTimestamp: created(s.Created)}
		case Gauge:
			m.Gauge = &dto.Gauge{Value: &s.Value}
		case Histogram:
			m.Histogram = histogram(f, s)
		}
		family.Metric = append(family.Metric, m)
	}
	return family, invalid
}

// valid reports whether Prometheus takes what the series of a family have in common. Names are
// those that need no quotes.
func valid(f *Family) bool {
	known := f.Kind == Counter || f.Kind == Gauge || f.Kind == Histogram
	if !known || !model.LegacyValidation.IsValidMetricName(f.Name) || repaired(f.Unit) != f.Unit {
		return false
	}
	for i, name := range f.Labels {
		if !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix) ||
			name == overflowLabel || f.Kind == Histogram && name == model.BucketLabel || slices.Contains(f.Labels[:i], name) {
			return false
		}
	}
	return f.Kind != Histogram || f.Native || validBounds(f.Bounds)
}

// distinct returns the series in the order of their labels, whose values it makes UTF-8. The
// numbers of those that are the same then are added, because a series that comes twice makes
// Prometheus refuse one of them. It also returns how many are not valid.
func distinct(f *Family) (series []*Series, invalid int) {
	type keyed struct {
		key string
		*Series
	}
	var all []keyed
	found := make(map[string]*Series, len(f.Series))
	for i := range f.Series {
		s := f.Series[i]
		if !s.Overflow && len(s.Values) != len(f.Labels) || f.Kind == Histogram && !validHistogram(f, &s) {
			invalid++
			continue
		}
		key := "" // of the overflow: the others have more
		if !s.Overflow {
			s.Values = repairedAll(s.Values)
			key = separator + strings.Join(s.Values, separator)
		}
		if same := found[key]; same != nil {
			same.add(&s)
			continue
		}
		found[key] = &s
		all = append(all, keyed{key, &s})
	}
	slices.SortFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	for _, k := range all {
		series = append(series, k.Series)
	}
	return series, invalid
}

// separator is in no value, because it is not UTF-8.
const separator = "\xff"

// add adds the numbers of another series, and does not write to what it shares with others.
func (s *Series) add(t *Series) {
	s.Value += t.Value
	s.Count += t.Count
	s.Sum += t.Sum
	s.Zero += t.Zero
	s.Buckets = slices.Clone(s.Buckets)
	for i, n := range t.Buckets {
		s.Buckets[i] += n
	}
	sum := map[int]uint64{}
	for _, buckets := range []map[int]uint64{s.Exponential, t.Exponential} {
		for i, n := range buckets {
			sum[i] += n
		}
	}
	s.Exponential = sum
	s.Exemplars = slices.Concat(s.Exemplars, t.Exemplars)
	if t.Created.Before(s.Created) {
		s.Created = t.Created
	}
}

// labelName is the name of a label, and which of the values is its.
type labelName struct {
	name  string
	index int
}

// sortedNames returns the names in the order in which Prometheus has them.
func sortedNames(names []string) (sorted []labelName) {
	for i, name := range names {
		sorted = append(sorted, labelName{name, i})
	}
	slices.SortFunc(sorted, func(a, b labelName) int { return strings.Compare(a.name, b.name) })
	return sorted
}

// labels returns the labels of a series. What had no room has a label that says so in place of
// the others: for Prometheus, a label that is absent is the same as one that is empty, but for those of
// containers, which it would take from the exporter.
func labels(names []labelName, containers []string, s *Series) []*dto.LabelPair {
	all, pairs := make([]dto.LabelPair, len(names)+1), make([]*dto.LabelPair, 0, len(names)+1)
	add := func(name, value *string) {
		one := &all[len(pairs)]
		one.Name, one.Value = name, value
		pairs = append(pairs, one)
	}
	for i := range names {
		name := &names[i].name
		switch {
		case s.Overflow && *name != ContainerID && slices.Contains(containers, *name):
			add(name, pointer(""))
		case s.Overflow, *name == ContainerID && s.Values[names[i].index] == "" && slices.Contains(containers, *name):
		default:
			add(name, &s.Values[names[i].index])
		}
	}
	if s.Overflow {
		add(pointer(overflowLabel), pointer("true"))
		slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	return pairs
}

// repaired returns a text that is UTF-8.
func repaired(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func repairedAll(texts []string) []string {
	if !slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }) {
		return texts
	}
	result := make([]string, len(texts))
	for i, text := range texts {
		result[i] = repaired(text)
	}
	return result
}

func created(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func pointer[T any](v T) *T { return &v }

// finite reports whether a number is one.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

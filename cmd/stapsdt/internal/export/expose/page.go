//go:build linux

package expose

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// page holds the families of an answer in the form that Prometheus's packages encode. The next
// answer fills it again: mostly only the numbers are new, and the labels and messages take longer
// to make than the numbers to write.
type page struct{ families []*pageFamily }

// convert returns the families for Prometheus that have valid series, and the number of invalid
// series. The families are valid until the next call.
func (p *page) convert(collected []Family) (all []*dto.MetricFamily, invalid int) {
	if len(p.families) > len(collected) {
		p.families = slices.Delete(p.families, len(collected), len(p.families))
	}
	for i := range collected {
		f := &collected[i]
		if i == len(p.families) {
			p.families = append(p.families, newPageFamily(f))
		} else if !p.families[i].of.like(f) {
			p.families[i] = newPageFamily(f)
		}
		to := p.families[i]
		if invalid += to.fill(f); len(to.to.Metric) > 0 {
			all = append(all, &to.to)
		}
	}
	return all, invalid
}

// like reports whether families differ at most in their series.
func (f *Family) like(g *Family) bool {
	return f.Name == g.Name && f.Help == g.Help && f.Unit == g.Unit &&
		f.Kind == g.Kind && f.Native == g.Native && slices.Equal(f.Bounds, g.Bounds) &&
		slices.Equal(f.Labels, g.Labels) && slices.Equal(f.ContainerLabels, g.ContainerLabels)
}

// pageFamily is a family of a page.
type pageFamily struct {
	of     Family // without series
	to     dto.MetricFamily
	sets   map[labelSet]*labelNames
	series []*pageSeries
	// created is the time when the counting of the last series began. Most series have the same.
	created *timestamppb.Timestamp
}

// labelNames are the names of a set of labels.
type labelNames struct {
	desc   *prometheus.Desc
	sorted []string
	index  []int           // of the sorted names in Family.Labels, or -1 for overflowLabel
	empty  []dto.LabelPair // the names without a value
}

// labelSet identifies the labels of a series: the label of the overflow, or all labels. Either can
// lack ContainerID and Workload.
type labelSet struct{ overflow, id, workload bool }

func newPageFamily(f *Family) *pageFamily {
	p := &pageFamily{of: *f, sets: map[labelSet]*labelNames{}}
	p.of.Series = nil
	p.to.Name, p.to.Help, p.to.Type = &p.of.Name, proto.String(Repaired(f.Help)), f.Kind.Enum()
	if f.Unit != "" {
		p.to.Unit = &p.of.Unit
	}
	return p
}

// fill replaces the series, and returns the number of series that are not valid.
func (p *pageFamily) fill(f *Family) (invalid int) {
	all := merged(f)
	if len(p.series) > len(all) {
		p.series = slices.Delete(p.series, len(all), len(p.series))
	}
	p.to.Metric = p.to.Metric[:0]
	for i, s := range all {
		if i == len(p.series) {
			p.series = append(p.series, p.newSeries(s))
		} else if !p.series[i].isOf(s) {
			p.series[i] = p.newSeries(s)
		}
		if m := p.series[i].fill(p, s); m != nil {
			p.to.Metric = append(p.to.Metric, m)
		} else {
			invalid++
		}
	}
	return invalid
}

// pageSeries is a series of a page. Its message refers to its numbers.
type pageSeries struct {
	values   []string // those of the Series, which to.Label refers to
	overflow bool

	names   *labelNames // nil if the labels are not valid
	to      dto.Metric
	value   float64 // or the sum
	count   uint64
	buckets *pageBuckets // nil if it is not a histogram
}

type pageBuckets struct {
	counts []uint64
	all    []*dto.Bucket // without the bucket that an exemplar may need
}

// isOf reports whether the labels are those of a series.
func (s *pageSeries) isOf(of *Series) bool {
	return s.overflow == of.Overflow && slices.Equal(s.values, of.Values)
}

// newSeries makes the labels and the message of a series.
func (p *pageFamily) newSeries(s *Series) *pageSeries {
	to := &pageSeries{values: s.Values, overflow: s.Overflow}
	if !s.Overflow && len(s.Values) != len(p.of.Labels) {
		return to
	}
	if to.names = p.names(s); to.names == nil {
		return to
	}
	to.to.Label = to.names.pairs(s)
	switch {
	case p.of.Kind == Gauge:
		to.to.Gauge = &dto.Gauge{Value: &to.value}
	case p.of.Kind == Histogram:
		to.to.Histogram = &dto.Histogram{SampleCount: &to.count, SampleSum: &to.value}
		to.buckets = newPageBuckets(p.of.Bounds)
	default:
		to.to.Counter = &dto.Counter{Value: &to.value}
	}
	return to
}

// names returns the names of the labels of a series, or nil if they or their values are not valid.
func (p *pageFamily) names(s *Series) *labelNames {
	names, values := p.of.labels(s)
	has := func(name string) bool { return slices.Contains(names, name) }
	set := labelSet{s.Overflow, has(ContainerID), has(Workload)}
	known := p.sets[set]
	if known == nil {
		known = &labelNames{desc: prometheus.NewDesc(p.of.Name, "", names, nil)}
		known.sorted = slices.Sorted(slices.Values(names))
		known.empty = make([]dto.LabelPair, len(names))
		for i, name := range known.sorted {
			known.index = append(known.index, slices.Index(p.of.Labels, name))
			known.empty[i].Name, known.empty[i].Value = &known.sorted[i], proto.String("")
		}
		p.sets[set] = known
	}
	_, err := prometheus.NewConstMetric(known.desc, prometheus.UntypedValue, 0, values...)
	if err != nil {
		return nil
	}
	return known
}

// overflowValue is the value of overflowLabel. The other labels of an overflow have no value.
var overflowValue = "true"

// pairs returns the labels of a series, which refer to its values.
func (n *labelNames) pairs(s *Series) []*dto.LabelPair {
	all := make([]*dto.LabelPair, len(n.index))
	for i, at := range n.index {
		switch {
		case at < 0:
			all[i] = &dto.LabelPair{Name: &n.sorted[i], Value: &overflowValue}
		case s.Overflow || s.Values[at] == "":
			all[i] = &n.empty[i]
		default:
			all[i] = &dto.LabelPair{Name: &n.sorted[i], Value: &s.Values[at]}
		}
	}
	return all
}

func newPageBuckets(bounds []float64) *pageBuckets {
	b := &pageBuckets{make([]uint64, len(bounds)), make([]*dto.Bucket, len(bounds))}
	memory := make([]dto.Bucket, len(bounds))
	for i := range bounds {
		b.all[i] = &memory[i]
		b.all[i].CumulativeCount, b.all[i].UpperBound = &b.counts[i], &bounds[i]
	}
	return b
}

// fill returns the message with the numbers of a series, or nil if the series is not valid.
func (s *pageSeries) fill(f *pageFamily, of *Series) *dto.Metric {
	if s.names == nil {
		return nil
	}
	if f.created == nil || !f.created.AsTime().Equal(of.Created) {
		f.created = timestamppb.New(of.Created)
	}
	switch {
	case f.of.Kind == Histogram:
		return s.fillHistogram(f, of)
	case s.to.Counter != nil && of.Created.IsZero():
		s.to.Counter.CreatedTimestamp = nil
	case s.to.Counter != nil:
		s.to.Counter.CreatedTimestamp = f.created
	}
	s.value = of.Value
	return &s.to
}

// fillHistogram is fill for a histogram, whose count is the sum of its buckets.
func (s *pageSeries) fillHistogram(f *pageFamily, of *Series) *dto.Metric {
	var m prometheus.Metric = s
	if f.of.Native {
		var err error
		if m, err = of.native(&f.of, s.names.desc); err != nil {
			return nil
		}
	} else {
		s.count, s.value, s.to.Histogram.CreatedTimestamp = of.Zero, of.Sum, f.created
		b := s.buckets
		divided := min(len(of.Buckets), len(b.all))
		for i, n := range of.Buckets {
			s.count += n
			if i < divided {
				b.counts[i], b.all[i].Exemplar = s.count, nil
			}
		}
		s.to.Histogram.Bucket = b.all[:divided:divided]
		if len(of.Exemplars) == 0 {
			return &s.to
		}
	}
	if len(of.Exemplars) > 0 {
		var err error
		if m, err = of.withExemplars(m); err != nil {
			return nil
		}
	}
	var written dto.Metric
	if m.Write(&written) != nil {
		return nil
	}
	return &written
}

// Desc implements prometheus.Metric.
func (s *pageSeries) Desc() *prometheus.Desc { return s.names.desc }

// Write implements prometheus.Metric for a histogram.
func (s *pageSeries) Write(to *dto.Metric) error {
	if s.to.Histogram == nil {
		return fmt.Errorf("%s is not a histogram", s.Desc())
	}
	to.Label, to.Histogram = s.to.Label, s.to.Histogram
	return nil
}

//go:build linux

package expose

import (
	"maps"
	"slices"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// deltas turns cumulative metrics into what was added since the collector last accepted them. A
// message that fails loses nothing: the next one has its numbers, too.
type deltas struct {
	accepted map[string]point // the cumulative points that the collector knows, by their keys
}

// point is a data point of a sum or a histogram.
type point interface {
	proto.Message
	GetAttributes() []*common.KeyValue
	GetStartTimeUnixNano() uint64
	GetTimeUnixNano() uint64
}

// growth is how a point differs from an earlier one of its series.
type growth int

const (
	same growth = iota
	more
	less
)

// apply makes metrics deltas. It leaves out points to which nothing was added, and metrics without
// points.
func (d *deltas) apply(all []measured) []measured {
	seen := map[string]bool{}
	for i := range all {
		m := &all[i]
		switch data := m.metric.Data.(type) {
		case *metrics.Metric_Sum:
			data.Sum.AggregationTemporality = delta
			subtractAll(d, m, seen, &data.Sum.DataPoints, subtractNumber)
		case *metrics.Metric_Histogram:
			data.Histogram.AggregationTemporality = delta
			subtractAll(d, m, seen, &data.Histogram.DataPoints, subtractHistogram)
		case *metrics.Metric_ExponentialHistogram:
			data.ExponentialHistogram.AggregationTemporality = delta
			subtractAll(d, m, seen, &data.ExponentialHistogram.DataPoints, subtractExponential)
		}
	}
	maps.DeleteFunc(d.accepted, func(key string, _ point) bool { return !seen[key] })
	return slices.DeleteFunc(all, func(m measured) bool {
		return m.whole != nil && len(m.whole) == 0
	})
}

// accept remembers what the collector has accepted.
func (d *deltas) accept(all []measured) {
	for _, m := range all {
		maps.Copy(d.accepted, m.whole)
	}
}

// subtractAll subtracts what the collector knows from the points of a metric, and adds their keys
// to seen.
func subtractAll[P point](
	d *deltas, m *measured, seen map[string]bool, points *[]P, subtract func(now, before P) growth,
) {
	m.whole = map[string]point{}
	of := key(m.of) + key(&common.KeyValue{Key: m.metric.Name})
	rest := (*points)[:0]
	for _, now := range *points {
		k := of + key(&common.KeyValueList{Values: now.GetAttributes()})
		seen[k] = true
		whole := proto.CloneOf(now)
		before, ok := d.accepted[k].(P)
		if ok && now.GetStartTimeUnixNano() <= before.GetTimeUnixNano() {
			switch subtract(now, before) {
			case same:
				continue
			case less: // series whose sum this was are gone, and the collector knows the rest
				d.accepted[k] = whole
				continue
			}
		}
		m.whole[k] = whole
		rest = append(rest, now)
	}
	*points = rest
}

// key returns a string that is equal for equal messages of a type.
func key(m proto.Message) string {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return string(append(b, 0))
}

func subtractNumber(now, before *metrics.NumberDataPoint) growth {
	n := now.GetAsDouble() - before.GetAsDouble()
	now.StartTimeUnixNano = before.TimeUnixNano
	now.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: n}
	switch {
	case n > 0:
		return more
	case n == 0:
		return same
	}
	return less
}

func subtractHistogram(now, before *metrics.HistogramDataPoint) growth {
	if !slices.Equal(now.ExplicitBounds, before.ExplicitBounds) {
		return less
	}
	for i, n := range before.BucketCounts {
		if now.BucketCounts[i] < n {
			return less
		}
		now.BucketCounts[i] -= n
	}
	now.StartTimeUnixNano = before.TimeUnixNano
	now.Exemplars = later(now.Exemplars, before.TimeUnixNano)
	now.Sum = proto.Float64(now.GetSum() - before.GetSum())
	now.Count -= before.Count
	return grown(now.Count)
}

func subtractExponential(now, before *metrics.ExponentialHistogramDataPoint) growth {
	counts := now.Positive.BucketCounts
	for i, n := range before.Positive.BucketCounts {
		at := i + int(before.Positive.Offset-now.Positive.Offset)
		switch {
		case n == 0:
			continue
		case at < 0 || at >= len(counts) || counts[at] < n:
			return less
		}
		counts[at] -= n
	}
	if now.ZeroCount < before.ZeroCount {
		return less
	}
	now.ZeroCount -= before.ZeroCount
	now.StartTimeUnixNano = before.TimeUnixNano
	now.Exemplars = later(now.Exemplars, before.TimeUnixNano)
	now.Sum = proto.Float64(now.GetSum() - before.GetSum())
	now.Count -= before.Count
	return grown(now.Count)
}

func grown(count uint64) growth {
	if count > 0 {
		return more
	}
	return same
}

// later returns the exemplars after a time.
func later(all []*metrics.Exemplar, after uint64) []*metrics.Exemplar {
	return slices.DeleteFunc(all, func(e *metrics.Exemplar) bool { return e.TimeUnixNano <= after })
}

//go:build linux

package expose

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// schema is that of native histograms: 2^3 buckets from one power of two to the next.
	schema = 3
	// lowest and highest are the indices of the first and the last bucket that a float64 falls into.
	lowest, highest = -1074 << schema, 1024 << schema
	// spanGap is how many empty buckets are cheaper than the beginning of another span.
	spanGap = 2
)

// validBounds reports whether bounds are finite and in order.
func validBounds(bounds []float64) bool {
	for i, bound := range bounds {
		if !finite(bound) || i > 0 && bound <= bounds[i-1] {
			return false
		}
	}
	return true
}

// validHistogram reports whether a series has the buckets of its family.
func validHistogram(f *Family, s *Series) bool {
	if !f.Native {
		return len(s.Buckets) == len(f.Bounds)+1
	}
	for i := range s.Exponential {
		if i < lowest || i > highest {
			return false
		}
	}
	return true
}

// histogram returns a histogram for Prometheus. Its count is the sum of its buckets, because
// Prometheus refuses one that differs, and Series.Count may have been read a moment apart.
func histogram(f *Family, s *Series) *dto.Histogram {
	h := &dto.Histogram{SampleSum: &s.Sum, CreatedTimestamp: created(s.Created)}
	// Of two exemplars for one bucket, the newer one stays; and Prometheus wants them in order.
	exemplars := slices.SortedStableFunc(slices.Values(s.Exemplars), func(a, b Exemplar) int { return a.Time.Compare(b.Time) })
	if f.Native {
		native(h, s, exemplars)
	} else {
		classic(h, f.Bounds, s.Buckets, exemplars)
	}
	return h
}

// classic sets the buckets of a classic histogram, with that of all others, so that it can have
// an exemplar too.
func classic(h *dto.Histogram, bounds []float64, buckets []uint64, exemplars []Exemplar) {
	// One allocation for all: there are many buckets.
	all, cumulative := make([]dto.Bucket, len(buckets)), make([]uint64, len(buckets))
	h.Bucket = make([]*dto.Bucket, len(buckets))
	var count uint64
	for i, n := range buckets {
		count += n
		cumulative[i] = count
		all[i].CumulativeCount = &cumulative[i]
		if i < len(bounds) {
			all[i].UpperBound = &bounds[i]
		} else {
			all[i].UpperBound = &infinite
		}
		h.Bucket[i] = &all[i]
	}
	h.SampleCount = &count
	for _, e := range exemplars {
		i, _ := slices.BinarySearch(bounds, e.Value)
		h.Bucket[i].Exemplar = e.convert()
	}
}

// infinite is the bound of the last bucket.
var infinite = math.Inf(1)

// native sets the buckets of a native histogram. It also gets the classic bucket of all values,
// because older versions of Prometheus, and OpenMetrics as text, have exemplars nowhere else.
func native(h *dto.Histogram, s *Series, exemplars []Exemplar) {
	h.Schema = pointer(int32(schema))
	h.ZeroThreshold = pointer(prometheus.DefNativeHistogramZeroThreshold) // it marks an empty one as native
	h.ZeroCount = &s.Zero
	count := s.Zero
	var before uint64 // in the bucket before
	next := 0
	h.PositiveDelta = make([]int64, 0, len(s.Exponential))
	for n, i := range slices.Sorted(maps.Keys(s.Exponential)) {
		if n == 0 || i-next > spanGap {
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: pointer(int32(i - next)), Length: pointer(uint32(0))})
			next = i
		}
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length += uint32(i + 1 - next)
		for ; next <= i; next++ {
			in := s.Exponential[next]
			h.PositiveDelta = append(h.PositiveDelta, int64(in-before))
			before = in
		}
		count += before
	}
	h.SampleCount = &count
	h.Bucket = []*dto.Bucket{{UpperBound: &infinite, CumulativeCount: &count}}
	for _, e := range exemplars {
		h.Exemplars = append(h.Exemplars, e.convert())
		h.Bucket[0].Exemplar = h.Exemplars[len(h.Exemplars)-1]
	}
}

// exemplarLabel is the name that OpenMetrics recommends for the id of a span.
const exemplarLabel = "span_id"

func (e Exemplar) convert() *dto.Exemplar {
	return &dto.Exemplar{
		Label:     []*dto.LabelPair{{Name: pointer(exemplarLabel), Value: pointer(fmt.Sprintf("%016x", e.SpanID))}},
		Value:     &e.Value,
		Timestamp: timestamppb.New(e.Time),
	}
}

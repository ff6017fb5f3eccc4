package render

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Bucket is a part of a histogram: the values from Low up to, but not including, High.
type Bucket struct {
	Low, High float64
	Count     uint64
	Sum       query.Sum // sum of the values
}

// Histogram is the distribution of a value.
type Histogram struct {
	Type expr.Type
	// Buckets are the buckets with values, in order.
	Buckets []Bucket
	// Of defines all buckets, including those without values.
	Of query.Buckets
}

// NewHistogram returns the histogram of values of a type that were counted by bucket.
func NewHistogram(of expr.Type, buckets query.Buckets, counted query.Tallies) *Histogram {
	h := &Histogram{Type: of, Of: buckets}
	for i, t := range counted {
		low, high := buckets.Bounds(i)
		h.Buckets = append(h.Buckets, Bucket{low, high, t.Count, t.Sum})
	}
	slices.SortFunc(h.Buckets, func(a, b Bucket) int { return cmp.Compare(a.Low, b.Low) })
	return h
}

// Quantiles are the quantiles that are shown.
var Quantiles = []struct {
	Name string
	Part float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}}

// Count returns the number of values.
func (h *Histogram) Count() (n uint64) {
	for _, b := range h.Buckets {
		n += b.Count
	}
	return n
}

// average returns the average of a bucket's values. During counting, their number and sum can be of
// different moments, so that the quotient is not in the bucket.
func (b *Bucket) average() float64 { return min(max(average(b.Sum, b.Count), b.Low), b.High) }

func average(sum query.Sum, count uint64) float64 {
	mean, _ := new(big.Rat).SetFrac(sum.Int(), new(big.Int).SetUint64(max(count, 1))).Float64()
	return mean
}

// Average returns the average of the values.
func (h *Histogram) Average() float64 {
	var sum query.Sum
	for _, b := range h.Buckets {
		sum.Merge(b.Sum)
	}
	return average(sum, h.Count())
}

// Quantile returns the value below which the given part of the values lies: the average of the
// bucket with that value.
func (h *Histogram) Quantile(part float64) float64 {
	rank := uint64(math.Ceil(part * float64(h.Count())))
	for i := range h.Buckets {
		b := &h.Buckets[i]
		if rank <= b.Count || i == len(h.Buckets)-1 { // rounded for large numbers
			return b.average()
		}
		rank -= b.Count
	}
	return 0
}

// The widths of a bar: as wide as bpftrace's, or less if there are fewer columns.
const (
	minBar = 8
	maxBar = 52
)

// defaultColumns is the width of a histogram if nothing limits it.
const defaultColumns = 80

// Text writes the histogram for people, as bpftrace does, with the quantiles, within a number of
// columns.
func (h *Histogram) Text(w io.Writer, columns int) {
	if columns == text.Unlimited {
		columns = defaultColumns
	}
	grouped := h.grouped()
	var most uint64
	labels := make([]string, len(grouped))
	width := 0
	for i, b := range grouped {
		most = max(most, b.Count)
		labels[i] = h.label(b)
		width = max(width, len([]rune(labels[i])))
	}
	barWidth := min(max(columns-width-len(" 1234567890 ||"), minBar), maxBar)
	for i, b := range grouped {
		if b.Low == b.High {
			fmt.Fprintln(w, labels[i])
			continue
		}
		bar := strings.Repeat(
			"@", int(math.Ceil(float64(b.Count)*float64(barWidth)/float64(max(most, 1)))),
		)
		fmt.Fprintf(w, "%-*s %10d |%-*s|\n", width, labels[i], b.Count, barWidth, bar)
	}
	line := fmt.Sprintf("count %d", h.Count())
	parts := []string{"average " + h.Format(h.Average())}
	for _, q := range Quantiles {
		parts = append(parts, q.Name+" "+h.Format(h.Quantile(q.Part)))
	}
	for _, part := range parts {
		if text.Width(line+"  "+part) > columns {
			fmt.Fprintln(w, line)
			line = part
			continue
		}
		line += "  " + part
	}
	fmt.Fprintln(w, line)
}

// grouped returns the buckets that are shown, including empty ones between them.
func (h *Histogram) grouped() (all []Bucket) {
	for _, b := range h.Buckets {
		b.Low, b.High = h.Of.Group(b.Low, b.High)
		n := len(all)
		if n > 0 && all[n-1].Low == b.Low {
			all[n-1].Count += b.Count
			continue
		}
		if n > 0 {
			all = append(all, h.gap(all[n-1], b)...)
		}
		all = append(all, b)
	}
	return all
}

// maxGap is the maximum number of empty rows between two others.
const maxGap = 8

// gap returns the empty rows between two others, or one row without a size if there are many.
func (h *Histogram) gap(before, after Bucket) (empty []Bucket) {
	width := min(before.High-before.Low, after.High-after.Low)
	for at := before.High; at < after.Low; {
		_, high := h.Of.Group(at, at+width)
		if empty = append(empty, Bucket{Low: at, High: high}); len(empty) > maxGap ||
			math.IsInf(high, 0) {
			return []Bucket{{Low: before.High, High: before.High}}
		}
		at = high
	}
	return empty
}

func (h *Histogram) label(b Bucket) string {
	switch {
	case b.Low == b.High:
		return "..."
	case math.IsInf(b.Low, 0):
		return fmt.Sprintf("(..., %s)", h.Format(b.High))
	case math.IsInf(b.High, 0):
		return fmt.Sprintf("[%s, ...)", h.Format(b.Low))
	case b.High == b.Low+1 && h.Type.Unit != kind.Nanoseconds:
		return fmt.Sprintf("[%s]", h.Format(b.Low))
	}
	return fmt.Sprintf("[%s, %s)", h.Format(b.Low), h.Format(b.High))
}

// Format formats a number: as a duration, with bpftrace's suffixes for powers of 1024 if it is up
// to 1023 of one, as an integer from 1000 on, or else with four digits.
func (h *Histogram) Format(f float64) string {
	if h.Type.Unit == kind.Nanoseconds {
		return Duration(f)
	}
	for i, suffix := range []string{"E", "P", "T", "G", "M", "K"} {
		unit := math.Exp2(float64(60 - 10*i))
		if math.Abs(f) >= unit && math.Abs(f) < 1024*unit && math.Mod(f, unit) == 0 {
			return strconv.FormatFloat(f/unit, 'f', -1, 64) + suffix
		}
	}
	if whole := math.Round(f); f == whole || math.Abs(f) >= 1000 {
		return strconv.FormatFloat(whole, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}

// Duration formats a number of nanoseconds with three digits. It uses hours from a thousand hours
// on.
func Duration(f float64) string {
	const hour = float64(time.Hour)
	if !(math.Abs(f) < 1000*hour) {
		digits, _ := strconv.ParseFloat(strconv.FormatFloat(f/hour, 'e', 2, 64), 64)
		return strconv.FormatFloat(digits, 'f', -1, 64) + "h"
	}
	d := time.Duration(f)
	unit := time.Duration(1)
	for d.Abs() >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// OpenFor formats how long an operation has been open, or the maximum if its end may have been
// lost.
func OpenFor(d time.Duration, unknown bool) string {
	if unknown {
		return "<=" + Duration(float64(d))
	}
	return Duration(float64(d))
}

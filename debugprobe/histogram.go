package debugprobe

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/eventjson"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// The size of a histogram. A bucket's end is 2^(1/4) times its start, about 1.19 times.
const (
	maxGroups  = 32
	maxKey     = 128 // bytes of a group's key
	perOctave  = 4
	minExp     = -31 // smaller numbers count as 0
	maxExp     = 64  // larger numbers are in the last bucket
	numBuckets = (maxExp - minExp + 1) * perOctave
)

// histogram counts values by groups. Its size is bounded: it keeps the first maxGroups
// groups, and only counts the events of other groups.
type histogram struct {
	groups map[string]*group
	others uint64
	// scratch holds the key of the event that is being added.
	scratch []byte
}

type group struct {
	count    uint64
	sum      float64 // divided by sumScale to avoid an overflow
	min, max float64
	zero     uint64
	// positive and negative count by magnitude; negative is nil until it is needed.
	positive, negative []uint64
}

func newHistogram() *histogram {
	return &histogram{groups: map[string]*group{}, scratch: make([]byte, 0, maxKey+len("…"))}
}

// add counts an event. It reports whether the value is a finite number.
func (h *histogram) add(w *watchedProbe, value, by expr.Value) bool {
	number := 0.0
	if w.value != nil {
		number = asFloat(w.value.Type().Kind, value)
		if math.IsNaN(number) || math.IsInf(number, 0) {
			return false
		}
	}
	h.scratch = h.scratch[:0]
	if w.by != nil {
		h.scratch = appendKey(h.scratch, w.by.Type(), by)
	}
	g := h.groups[string(h.scratch)] // the conversion makes no copy
	if g == nil {
		if len(h.groups) == maxGroups {
			h.others++
			return true
		}
		g = &group{min: number, max: number}
		if w.value != nil {
			g.positive = make([]uint64, numBuckets)
		}
		h.groups[string(h.scratch)] = g
	}
	g.count++
	if w.value != nil {
		g.add(number)
	}
	return true
}

func asFloat(k expr.Kind, v expr.Value) float64 {
	switch k {
	case expr.Int:
		return float64(v.Int())
	case expr.Float:
		return v.Float()
	}
	return float64(v.Uint())
}

// appendKey appends the text of a group's key.
func appendKey(b []byte, t expr.Type, v expr.Value) []byte {
	if t.Kind == expr.String {
		return append(b, eventjson.Cut(v.Text(), maxKey)...)
	}
	return kind.AppendText(b, t.Kind, t.Unit, t.Size, v.Uint())
}

// sumScale exceeds the maximum number of events.
const sumScale = 1 << 64

func (g *group) add(f float64) {
	g.sum += f / sumScale
	g.min, g.max = min(g.min, f), max(g.max, f)
	i := bucketOf(math.Abs(f))
	switch {
	case i < 0:
		g.zero++
	case f > 0:
		g.positive[i]++
	default:
		if g.negative == nil {
			g.negative = make([]uint64, numBuckets)
		}
		g.negative[i]++
	}
}

// quarters are the starts of the four buckets in the range of Frexp's fraction.
var quarters = [perOctave]float64{0.5, 0.5946035575013605, 0.7071067811865476, 0.8408964152537145}

// bucketOf returns the number of a positive number's bucket, or -1 if it counts as 0.
func bucketOf(f float64) int {
	if f == 0 {
		return -1
	}
	fraction, exp := math.Frexp(f) // f = fraction * 2^exp, and 0.5 <= fraction < 1
	if exp < minExp {
		return -1
	}
	i := (exp - minExp) * perOctave
	for _, start := range quarters[1:] {
		if fraction >= start {
			i++
		}
	}
	return min(i, numBuckets-1)
}

// bucketStart returns the smallest number of a bucket.
func bucketStart(i int) float64 {
	return math.Ldexp(quarters[i%perOctave], i/perOctave+minExp)
}

// chart is a histogram as clients see it.
type chart struct {
	Value string `json:"value,omitempty"`
	By    string `json:"by,omitempty"`
	// the type of the value; a time.Duration is in nanoseconds
	Type   string `json:"type,omitempty"`
	Groups []bars `json:"groups"`
	Others uint64 `json:"others"` // the events of groups that are not kept
	Stats  *stats `json:"stats,omitempty"`
}

// bars is a group of a histogram.
type bars struct {
	Key     string   `json:"key"`
	Count   uint64   `json:"count"`
	Numbers *numbers `json:"numbers,omitempty"`
	// from, to (exclusive), count; only those with a count
	Buckets [][3]float64 `json:"buckets,omitempty"`
}

type numbers struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// chart returns the histogram's present state, with the largest groups first.
func (h *histogram) chart(w *watchedProbe) *chart {
	c := &chart{Groups: []bars{}, Others: h.others}
	if w.value != nil {
		c.Value, c.Type = w.value.String(), w.value.Type().String()
	}
	if w.by != nil {
		c.By = w.by.String()
	}
	for key, g := range h.groups {
		b := bars{Key: key, Count: g.count}
		if w.value != nil {
			b.Buckets = g.buckets()
			mean := min(max(g.sum/float64(g.count)*sumScale, g.min), g.max)
			b.Numbers = &numbers{
				mean,
				g.min,
				g.quantile(b.Buckets, .5),
				g.quantile(b.Buckets, .9),
				g.quantile(b.Buckets, .99),
				g.max,
			}
		}
		c.Groups = append(c.Groups, b)
	}
	slices.SortFunc(c.Groups, func(a, b bars) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Key, b.Key))
	})
	return c
}

// buckets returns the buckets that have a count, in ascending order.
func (g *group) buckets() (list [][3]float64) {
	for i := len(g.negative) - 1; i >= 0; i-- {
		if n := g.negative[i]; n > 0 {
			list = append(list, [3]float64{-bucketStart(i + 1), -bucketStart(i), float64(n)})
		}
	}
	if g.zero > 0 {
		list = append(list, [3]float64{0, 0, float64(g.zero)})
	}
	for i, n := range g.positive {
		if n > 0 {
			list = append(list, [3]float64{bucketStart(i), bucketStart(i + 1), float64(n)})
		}
	}
	return list
}

// quantile estimates the number that a fraction q of the values does not exceed. It assumes that
// a bucket's values are spread evenly over it.
func (g *group) quantile(buckets [][3]float64, q float64) float64 {
	rank := q * float64(g.count)
	for _, b := range buckets {
		if rank <= b[2] {
			return min(max(b[0]+(b[1]-b[0])*rank/b[2], g.min), g.max)
		}
		rank -= b[2]
	}
	return g.max
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all numbers are finite
	}
	return b
}

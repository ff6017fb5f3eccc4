//go:build linux

package table

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// results are figures by "subject phase row", as "go idle two".
type results map[string][]float64

// median returns the figure for a key. It is a mistake of this program to ask
// for what was not measured.
func (r results) median(key string) float64 {
	if !r.has(key) {
		panic("nothing was measured for " + key)
	}
	return quantile(r[key], 0.5)
}

// quantile interpolates between the two nearest values. The median is that of 0.5.
func quantile(values []float64, q float64) float64 {
	list := slices.Sorted(slices.Values(values))
	at := q * float64(len(list)-1)
	low := int(at)
	high := min(low+1, len(list)-1)
	return list[low] + (list[high]-list[low])*(at-float64(low))
}

// maxSpread is how far the quartiles of what is published may be apart, as a part of the median.
const maxSpread = 0.1

// steady reports whether a figure was measured and may be published. If it has a ratio to another figure of the same rounds,
// the ratio decides: it is what remains when the machine is slower. Standard error names what is left out.
func (r results) steady(key, beside string) bool {
	if !r.has(key) {
		return false
	}
	list := r[key]
	if r.has(beside) {
		list = r.ratios(key, beside)
	}
	spread := (quantile(list, 0.75) - quantile(list, 0.25)) / quantile(list, 0.5)
	if spread > maxSpread {
		fmt.Fprintf(os.Stderr, "left out: %s: its quartiles are %.0f %% apart\n", key, 100*spread)
	}
	return spread <= maxSpread
}

// has reports whether something was measured for a key.
func (r results) has(key string) bool { return len(r[key]) > 0 }

// ratio returns the median, over the rounds, of one figure divided by another
// that was measured in the same round.
func (r results) ratio(key, to string) float64 {
	return quantile(r.ratios(key, to), 0.5)
}

// calls is ratio for a load, which is in microseconds, and a system call, which is in nanoseconds.
func (r results) calls(key, call string) float64 { return 1000 * r.ratio(key, call) }

// inTurn adds the median of some answers, and of their ratios to a unit that is asked before each: a virtual machine is faster at
// one moment than at the next. Without a reference, there are no ratios.
func (r results) inTurn(key, unit string, times int, reference, ask func() float64) {
	var answers, ratios []float64
	for range times {
		beside := 0.0
		if reference != nil {
			beside = reference()
		}
		answers = append(answers, ask())
		if beside > 0 {
			ratios = append(ratios, answers[len(answers)-1]/beside)
		}
	}
	r[key] = append(r[key], quantile(answers, 0.5))
	if ratios != nil {
		paired := pairedKey(key, unit)
		r[paired] = append(r[paired], quantile(ratios, 0.5))
	}
}

// pairedKey is the key of the ratios of what was asked in turn with its unit.
func pairedKey(key, unit string) string { return key + " / " + unit }

// ratios returns the ratios of one figure to another, of each round.
func (r results) ratios(key, to string) []float64 {
	if paired := r[pairedKey(key, to)]; paired != nil {
		return paired
	}
	return r.pairs(key, to, func(a, b float64) float64 { return a / b })
}

// difference returns the median, over the rounds, of one figure less another.
func (r results) difference(key, less string) float64 {
	return quantile(r.pairs(key, less, func(a, b float64) float64 { return a - b }), 0.5)
}

// pairs compares the figures of two keys, round by round.
func (r results) pairs(key, other string, compare func(a, b float64) float64) (list []float64) {
	a, b := r[key], r[other]
	if len(a) != len(b) {
		panic(key + " and " + other + " were not measured in the same rounds")
	}
	for i := range a {
		list = append(list, compare(a[i], b[i]))
	}
	return list
}

// cells returns the cells of a figure, and of its ratios to others. They are empty where one was not measured, and all of
// them where the figure, or its ratio to the first, is not steady.
func (r results) cells(key string, format func(float64) string, beside ...string) string {
	first := ""
	if len(beside) > 0 {
		first = beside[0]
	}
	if !r.steady(key, first) {
		return strings.Repeat(" |", 1+len(beside))
	}
	all := " " + format(r.median(key)) + " |"
	for _, other := range beside {
		if r.has(other) {
			all += fmt.Sprintf(" %.2f", r.ratio(key, other))
		}
		all += " |"
	}
	return all
}

// row writes a row of a table, unless none of its cells has a figure.
func row(s *strings.Builder, what string, cells ...string) {
	all := strings.Join(cells, "")
	if strings.Trim(all, " |") != "" {
		fmt.Fprintf(s, "| %s |%s\n", what, all)
	}
}

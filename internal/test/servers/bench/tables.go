package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/test/servers/way"
)

// outcome is what was measured of a server in one way, in all rounds.
type outcome struct {
	rate, processor, p50, p99 value
	events                    string
}

// value is a median, and the median of its ratios to the first way in the same round, in percent. The ratio is 0 if its
// quartiles are more than a tenth apart.
type value struct{ median, percent float64 }

// maxSpread is how far the quartiles of what is published may be apart, as a part of the median.
const maxSpread = 0.1

// outcome returns what was measured.
func (s server) outcome(w watch, results map[string][]figures) outcome {
	own, first := results[s.name+w.name], results[s.name+s.ways[0].name]
	of := func(figure func(figures) float64) value {
		var values, ratios []float64
		for round, f := range own {
			if base := first[round]; f.rate > 0 && base.rate > 0 {
				values, ratios = append(values, figure(f)), append(ratios, 100*figure(f)/figure(base))
			}
		}
		v := value{quantile(values, 0.5), quantile(ratios, 0.5)}
		if quantile(ratios, 0.75)-quantile(ratios, 0.25) > maxSpread*v.percent {
			v.percent = 0
		}
		return v
	}
	o := outcome{
		rate: of(func(f figures) float64 { return f.rate }), processor: of(func(f figures) float64 { return f.processor }),
		p50: of(func(f figures) float64 { return f.p50 }), p99: of(func(f figures) float64 { return f.p99 }),
	}
	seen, lost := 0, 0
	for _, f := range own {
		seen, lost = seen+f.seen, lost+f.lost
	}
	if seen > 0 {
		o.events = thousands(float64(seen))
	}
	if lost > 0 {
		o.events += fmt.Sprintf(", %s lost", thousands(float64(lost)))
	}
	return o
}

// table returns a server's figures in Markdown. What is not steady is left out.
func (s server) table(results map[string][]figures) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s | %s/s | of nothing | p50 | p99 | processor | of nothing | events seen |\n", s.name, s.unit)
	text.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, w := range s.ways {
		o := s.outcome(w, results)
		if o.rate.percent == 0 && o.processor.percent == 0 {
			continue
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", w.name, thousands(o.rate.median), percent(o.rate.percent),
			duration(o.p50.median), duration(o.p99.median), duration(o.processor.median), percent(o.processor.percent), o.events)
	}
	text.WriteString("\n")
	return text.String()
}

// summarize returns the table of the servers that have probes: the processor time of a request, compared with the same
// server without probes.
func summarize(list []server, results map[string][]figures) string {
	rows := map[string]string{}
	titles, lines, names := "| processor time of a request |", "|---|", []string(nil)
	for _, s := range list {
		if s.short == "" {
			continue
		}
		titles, lines = titles+" "+s.short+" |", lines+"--:|"
		names = nil
		for _, w := range s.ways[1:] {
			name := w.name
			if w.way == way.Otel {
				name = "OpenTelemetry"
			}
			names = append(names, name)
			rows[name] += " " + percent(s.outcome(w, results).processor.percent) + " |"
		}
	}
	text := titles + "\n" + lines + "\n"
	for _, name := range names {
		text += "| " + name + " |" + rows[name] + "\n"
	}
	return text
}

// percent formats a ratio, of which 0 was not steady.
func percent(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", v)
}

// quantile is the median for 0.5, and between two values their mean, as they are apart.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	at := q * float64(len(values)-1)
	low, high := values[int(at)], values[min(int(at)+1, len(values)-1)]
	return low + (high-low)*(at-math.Floor(at))
}

// duration formats microseconds, of which 0 is not known.
func duration(us float64) string {
	switch {
	case us == 0:
		return ""
	case us >= 1000:
		return fmt.Sprintf("%.3g ms", us/1000)
	}
	return fmt.Sprintf("%.3g µs", us)
}

// thousands formats a number with a comma before each three digits.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

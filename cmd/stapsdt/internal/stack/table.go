//go:build linux

package stack

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"
)

// Table has the stacks from which probes were fired, the most frequent first.
type Table struct {
	By   []string // the expressions
	Rows []Row
	// Limit is the maximum number of stacks that Text shows, or 0 for all.
	Limit int
	// Start and Duration are the time in which the events were counted.
	Start    time.Time
	Duration time.Duration
}

// Row is the number of events of a probe from one stack.
type Row struct {
	Probe string
	By    []string // the values of the expressions
	Count uint64
	Stack *symbol.Stack
}

// Text returns the stacks with a line for each function, the innermost first.
func (t *Table) Text() []byte {
	total := uint64(0)
	for _, r := range t.Rows {
		total += r.Count
	}
	if total == 0 {
		return []byte("no events\n")
	}
	table := render.Table{Right: 2}
	table.Add("COUNT", "PERCENT", "PROBE")
	percent := func(n uint64) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(total)) }
	shown := t.Rows
	if t.Limit > 0 {
		shown = shown[:min(t.Limit, len(shown))]
	}
	for _, r := range shown {
		title := r.Probe
		for i, text := range r.By {
			title += fmt.Sprintf(" %s=%s", t.By[i], text)
		}
		table.Add(fmt.Sprint(r.Count), percent(r.Count), title)
		for i := range r.Stack.Frames {
			for _, line := range r.Stack.Frames[i].Lines() {
				table.Add("", "", "  "+line)
			}
		}
		if r.Stack.Cut != symbol.Whole {
			table.Add("", "", fmt.Sprintf("  [%v]", r.Stack.Cut))
		}
	}
	if rest := t.Rows[len(shown):]; len(rest) > 0 {
		n := uint64(0)
		for _, r := range rest {
			n += r.Count
		}
		table.Add(fmt.Sprint(n), percent(n), "from "+render.Number(len(rest), "other stack"))
	}
	return table.Text()
}

// Folded returns a line for each stack in the format of flame graph programs: the probe, the values
// of --by, and the functions, the outermost first, separated by semicolons.
func (t *Table) Folded() []byte {
	counts := map[string]uint64{}
	for _, r := range t.Rows {
		line := []string{r.Probe}
		for i, text := range r.By {
			line = append(line, t.By[i]+"="+text)
		}
		line = append(line, callers(r.Stack)...)
		for i := range line {
			line[i] = strings.ReplaceAll(render.Printable(line[i]), ";", ":")
		}
		counts[strings.Join(line, ";")] += r.Count
	}
	lines := make([]string, 0, len(counts))
	for line := range counts {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	var b bytes.Buffer
	for _, line := range lines {
		fmt.Fprintf(&b, "%s %d\n", line, counts[line])
	}
	return b.Bytes()
}

// callers returns the names of the functions, the outermost first.
func callers(s *symbol.Stack) (names []string) {
	for i := range s.Frames {
		names = append(names, s.Frames[i].Names()...)
	}
	if s.Cut != symbol.Whole {
		names = append(names, fmt.Sprintf("[%v]", s.Cut))
	}
	slices.Reverse(names)
	return names
}

//go:build linux

package stack

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"
)

// table has the stacks from which probes were fired, the most frequent first.
type table struct {
	*Options
	rows []*count.Row[count.Probe]
	// start and duration are the time in which the events were counted.
	start    time.Time
	duration time.Duration
}

// text returns the stacks with a line for each function, the innermost first.
func (t *table) text() []byte {
	total := count.Events(t.rows)
	if total == 0 {
		return []byte("no events\n")
	}
	table := render.Table{Right: 2}
	table.Add("COUNT", "PERCENT", "PROBE")
	percent := func(n uint64) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(total)) }
	shown := t.rows
	if t.Limit > 0 {
		shown = shown[:min(t.Limit, len(shown))]
	}
	for _, r := range shown {
		title := r.Of.String()
		for i, text := range r.Text {
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
	if rest := t.rows[len(shown):]; len(rest) > 0 {
		n := count.Events(rest)
		table.Add(fmt.Sprint(n), percent(n), "from "+render.Number(len(rest), "other stack"))
	}
	return table.Text()
}

// folded returns a line for each stack in the format of flame graph programs: the probe, the values
// of --by, and the functions, the outermost first, separated by semicolons.
func (t *table) folded() []byte {
	counts := map[string]uint64{}
	for _, r := range t.rows {
		line := []string{r.Of.String()}
		for i, text := range r.Text {
			line = append(line, t.By[i]+"="+text)
		}
		line = append(line, callers(r.Stack)...)
		for i := range line {
			line[i] = strings.ReplaceAll(render.Printable(line[i]), ";", ":")
		}
		counts[strings.Join(line, ";")] += r.Count
	}
	var b bytes.Buffer
	for _, line := range slices.Sorted(maps.Keys(counts)) {
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

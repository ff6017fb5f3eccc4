package postmortem

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// The maximum numbers of lines of the parts of the screen, without their headings.
const (
	endingLines = 2
	openLines   = 5
	treeLines   = 7
	errorLines  = 3
	rateLines   = 4
	trailLines  = 3
)

const (
	clockLayout = "15:04:05.000000"
	dayLayout   = "2006-01-02 " + clockLayout
	// maxIndent is the depth beyond which operations are not indented further.
	maxIndent = 10
)

// page writes the screen.
type page struct {
	*bytes.Buffer
	width int
}

// line writes a line.
func (p *page) line(format string, args ...any) {
	text := strings.TrimRight(render.Printable(fmt.Sprintf(format, args...)), " ")
	p.WriteString(render.Cut(text, max(p.width, 1)) + "\n")
}

// part writes a part of the screen after an empty line, at most the given number of its lines, and
// the command that shows the others.
func (p *page) part(lines []string, most int, all int, command string) {
	if len(lines) == 0 {
		return
	}
	p.WriteByte('\n')
	for _, line := range lines[:min(len(lines), most)] {
		p.line("%s", line)
	}
	if rest := all - most; rest > 0 {
		p.line("and %d more: %s", rest, command)
	}
}

// split returns the lines of a table.
func split(t *render.Table) []string {
	return strings.Split(strings.TrimSuffix(string(t.Text()), "\n"), "\n")
}

// text writes the report for people.
func (r *report) text(b *bytes.Buffer, width int) {
	p := &page{b, width}
	for _, line := range r.heading() {
		p.line("%s", line)
	}
	p.part(r.openTable(width), 1+openLines, 1+r.known+r.unknown, r.reads("top"))
	if full := r.operations.Open.Full; full > 0 {
		p.line("%d more had no room: more than %d were open", full, query.MaxOpen)
	}
	r.trees(p)
	errors, kept := r.errorTable(width), min(int(r.failed), 1<<30)
	p.part(errors, 1+errorLines, 1+kept, r.reads("tree", "--errors"))
	p.part(r.rateTable(width), 2+rateLines, 2+len(r.rows), r.reads("count", "'*:*'"))
	events := r.eventTable(width)
	p.part(events, 1+trailLines, 0, "")
	if commands := r.commands(); len(commands) > 0 {
		p.part(commands, len(commands), 0, "")
	}
}

// heading returns the lines about the recording and the end of its process.
func (r *report) heading() []string {
	events := "no event since " + time.Unix(0, r.head.Reading.Realtime).Format(dayLayout)
	if r.events > 0 {
		events = fmt.Sprintf("%s from %s to %s", render.Number(r.events, "event"),
			time.Unix(0, r.first).Format(dayLayout), time.Unix(0, r.last).Format(clockLayout))
	}
	if r.file.Lost() > 0 {
		events += "; lost " + r.file.LossText()
	}
	first := fmt.Sprintf("%s: process %d, %s", r.path, r.head.PID, r.head.Executable)
	if r.owner != "" {
		first += ", of user " + r.owner
	}
	lines := []string{first, events, r.stateText()}
	if r.boot {
		lines = append(lines, "it ran before this machine was booted, or on another one")
	}
	for _, e := range r.endings[:min(len(r.endings), endingLines)] {
		lines = append(lines, r.endingText(e.Source, e.Text, e.Time))
	}
	if unit := ending.Stopping(); unit != "" && r.state == ended {
		lines = append(lines, fmt.Sprintf("the next start renames the recording: stapsdt postmortem %s then shows this again", unit))
	}
	return append(lines, r.notes...)
}

// stateText returns a sentence about the state of the process.
func (r *report) stateText() string {
	switch r.state {
	case alive:
		if silence := r.silence(); silence >= time.Second {
			return fmt.Sprintf("alive: no events for %s", render.Duration(float64(silence)))
		}
		return "alive, and recording"
	case closed:
		return "closed by the process after the last event: an orderly exit, or a panic that ran Close"
	case open:
		return "not closed: the process was killed, crashed, ended without Close, or still runs"
	}
	return "not closed: the process was killed, crashed, or ended without Close"
}

// endingText returns a line about the end of the process.
func (r *report) endingText(source, text string, at *time.Time) string {
	line := source + ": " + text
	if at == nil {
		return line
	}
	line += " at " + at.Local().Format(clockLayout)
	if after := at.Sub(time.Unix(0, r.last)); r.last != 0 && after >= time.Second {
		line += fmt.Sprintf(", %s after the last event", render.Duration(float64(after)))
	}
	return line
}

// openTable returns the lines of the operations without an end.
func (r *report) openTable(width int) []string {
	if len(r.open) == 0 {
		return nil
	}
	t := &render.Table{Width: width, Right: 2}
	t.Add("OPEN FOR", r.threadHead(), fmt.Sprintf("%d OPEN", r.known+r.unknown), "ARGUMENTS")
	for i, o := range r.open[:min(len(r.open), openLines)] {
		name := strings.Repeat("  ", min(r.depths[i], maxIndent)) + o.Kind.Name + " " + o.Key.ForText()
		t.Add(render.OpenFor(o.For(), !o.IsOpen()), threadText(o.Goroutine, o.TID), name,
			evaluate.Join(details(o)))
	}
	return split(t)
}

// threadHead returns the heading of the threads.
func (r *report) threadHead() string {
	for _, o := range r.open {
		if o.Goroutine != 0 {
			return "GOROUTINE"
		}
	}
	return "TID"
}

// threadText formats a goroutine or a thread.
func threadText(goroutine uint64, tid uint32) string {
	return fmt.Sprint(cmp.Or(goroutine, uint64(tid)))
}

// details returns the arguments of an operation's start.
func details(o *pairing.Operation) (all []evaluate.Shown) {
	for i := range o.Details {
		all = append(all, evaluate.Show(o.Columns.Names[i], &o.Details[i]))
	}
	return all
}

// trees writes the trees of the oldest operations.
func (r *report) trees(p *page) {
	var lines []string
	var cut *pairing.Operation
	all := 0
	for _, o := range r.roots {
		if !r.hasEnded(o) {
			continue // the table of open operations has all of it
		}
		tree := r.parts.Lines(o, p.width)
		if len(lines) > 0 {
			tree = tree[1:] // the heading is there
		}
		if all += len(tree); all > 1+treeLines && cut == nil {
			cut = o
		}
		lines = append(lines, tree...)
	}
	command := ""
	if cut != nil {
		command = r.treeOf(cut)
	}
	p.part(lines, 1+treeLines, all, command)
}

// hasEnded reports whether an operation has parts that have ended.
func (r *report) hasEnded(o *pairing.Operation) bool {
	tree := r.parts.JSON(o)
	if tree == nil {
		return false
	}
	for i := range tree.Operations {
		if tree.Operations[i].Ended {
			return true
		}
	}
	return false
}

// errorTable returns the lines of the last errors, the last first.
func (r *report) errorTable(width int) []string {
	all := r.lastFailures()
	if len(all) == 0 {
		return nil
	}
	t := &render.Table{Width: width}
	t.Add("ERROR AT", fmt.Sprintf("%d FAILED", r.failed), "ARGUMENTS")
	for _, f := range all[:min(len(all), errorLines)] {
		t.Add(clockOf(&f.event), f.name(), evaluate.Join(f.arguments(r.values)))
	}
	return split(t)
}

// name returns the name of the operation that has failed, or of the probe.
func (f *failure) name() string {
	if f.start != nil {
		return f.start.Kind.Name + " " + f.start.Key.ForText()
	}
	return f.event.Probe.Provider + ":" + f.event.Probe.Name
}

// arguments returns the error, and then the other arguments of the start and of the end.
func (f *failure) arguments(values evaluate.Arguments) []evaluate.Shown {
	var failed, all []evaluate.Shown
	if f.start != nil {
		all = details(f.start)
	}
	known := len(all)
	for i, one := range evaluate.ShowAll(values.Of(&f.event, "parent", "nanoseconds")) {
		isKey := f.start != nil && i == 0
		same := func(s evaluate.Shown) bool { return s.Name == one.Name && s.Text == one.Text }
		switch {
		case one.Name == "error":
			failed = append(failed, one)
		case !isKey && !slices.ContainsFunc(all[:known], same):
			all = append(all, one)
		}
	}
	return append(failed, all...)
}

// rateTable returns the lines of the rates.
func (r *report) rateTable(width int) []string {
	if len(r.rows) == 0 {
		return nil
	}
	seconds := r.rates.seconds()
	t := &render.Table{Width: width, Right: 6}
	last, before := render.Duration(seconds[1]*1e9), render.Duration(seconds[0]*1e9)
	t.Add("LAST "+last, "", "", before+" BEFORE", "", "", "")
	t.Add("RATE/S", "P99", "FAILED", "RATE/S", "P99", "FAILED", "OPERATION")
	for _, one := range r.rows[:min(len(r.rows), rateLines)] {
		cells := append(one.parts[1].cells(seconds[1]), one.parts[0].cells(seconds[0])...)
		t.Add(append(cells, one.name)...)
	}
	return split(t)
}

// cells returns the cells of a part of the time that has some seconds.
func (p *part) cells(seconds float64) []string {
	p99 := "-"
	if h := p.histogram(); h != nil {
		p99 = render.Duration(h.Quantile(0.99))
	}
	return []string{perSecond(p.rate(seconds)), p99, fmt.Sprint(p.errors)}
}

// rate returns the number per second.
func (p *part) rate(seconds float64) float64 { return float64(p.count) / max(seconds, 1e-9) }

func perSecond(f float64) string {
	switch {
	case f == 0 || f >= 10:
		return fmt.Sprintf("%.0f", f)
	case f < 0.1:
		return fmt.Sprintf("%.2g", f)
	}
	return fmt.Sprintf("%.1f", f)
}

// eventTable returns the lines of the last events of the goroutines with open operations, or of all
// if there is no operation at all.
func (r *report) eventTable(width int) []string {
	shown := r.shownEvents()
	if len(shown) == 0 {
		return nil
	}
	t := &render.Table{Width: width}
	head := "GOROUTINE"
	if shown[0].Goroutine == 0 {
		head = "TID"
	}
	t.Add("LAST EVENTS", head, "PROBE", "ARGUMENTS")
	for _, e := range shown {
		t.Add(clockOf(e), threadText(e.Goroutine, e.TID), nameOf(e.Probe),
			evaluate.Join(evaluate.ShowAll(r.values.Of(e))))
	}
	return split(t)
}

// clockOf returns the time of day of an event.
func clockOf(e *recording.Event) string { return time.Unix(0, e.Realtime).Format(clockLayout) }

func nameOf(p *recording.Probe) string { return p.Provider + ":" + p.Name }

// shownEvents selects the events for eventTable. It leaves out those of a goroutine that have begun
// an operation last: openTable has it.
func (r *report) shownEvents() (shown []*recording.Event) {
	if len(r.open) == 0 {
		all := r.recent.all()
		return all[max(len(all)-trailLines, 0):]
	}
	var trails [][]*recording.Event
	for _, one := range r.paths() {
		all := one.all()
		if len(all) == 0 {
			continue
		}
		last := all[len(all)-1]
		if _, isStart := spec.NameOf(last.Probe.Name); !isStart {
			trails = append(trails, all)
		}
	}
	if len(trails) == 0 {
		return nil
	}
	trails = trails[:min(len(trails), trailLines)]
	for _, all := range trails {
		each := trailLines / len(trails)
		shown = append(shown, all[max(len(all)-each, 0):]...)
	}
	return shown
}

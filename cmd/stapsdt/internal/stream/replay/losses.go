package replay

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// Begin warns of probes that are left out and of files that are cut, and reports how the events of
// several recordings are ordered.
func (r *Reader) Begin(to *console.Console) {
	if line := r.unfit.Take(r.selected); line != "" {
		to.Warn("%s", line)
	}
	if r.live {
		return
	}
	for _, f := range r.files {
		if size, whole := f.Cut(); whole > 0 {
			to.Warn("%s has %d of the recording's %d bytes: the events in the others are missing", f.Path, size, whole)
		}
	}
	if r.realtime {
		to.Warn("the recordings are from different or unknown boots: their events are ordered by the time of day")
	}
}

// reportFile is Report for one of several files.
func (r *Reader) reportFile(to *console.Console, f *File, consequence string) {
	if f.Lost() > 0 {
		to.Warn("%s has lost %s: %s", f.Path, f.LossText(), consequence)
	}
}

// Report warns if the recordings have lost events. consequence describes the effect on the result.
func (r *Reader) Report(to *console.Console, consequence string) {
	for _, f := range r.files {
		r.reportFile(to, f, consequence)
	}
}

// LowerBounds is the consequence of lost events for counts.
const LowerBounds = "the numbers are lower bounds"

// Losses counts lost events: in all, before the first event, between events, after the last event
// that was read, and at unknown times.
type Losses struct {
	Lost     uint64 `json:"lost" doc:"number of events"`
	Before   uint64 `json:"before,omitempty" doc:"lost events; before the first one"`
	Between  uint64 `json:"between,omitempty" doc:"lost events; between others"`
	After    uint64 `json:"after,omitempty" doc:"lost events; after the last one that was read"`
	Unplaced uint64 `json:"unplaced,omitempty" doc:"lost events; at unknown times"`
	PodLosses
}

// PodLosses are the pods whose events were lost, and the times when pods were not watched although
// they ran.
type PodLosses struct {
	Pods      []PodLoss `json:"pods,omitempty" doc:"those that lost events"`
	Unwatched []Gap     `json:"unwatched,omitempty" doc:"times when pods were not watched although they ran"`
}

// PodLoss is the number of events of a pod that were lost.
type PodLoss struct {
	render.PodName
	Lost uint64 `json:"lost" doc:"number of events"`
}

// Gap is a time in which a pod was not watched.
type Gap struct {
	render.PodName
	From time.Time `json:"from" doc:"beginning"`
	To   time.Time `json:"to" doc:"end"`
}

// WarnUnwatched warns of each gap.
func (l Losses) WarnUnwatched(to *console.Console) {
	const clock = "15:04:05.000000"
	for _, g := range l.Unwatched {
		to.Warn("%s/%s was not watched from %s to %s: its events are missing", g.Namespace, g.Pod,
			g.From.Local().Format(clock), g.To.Local().Format(clock))
	}
}

// Losses returns the numbers of events that the recordings have lost.
func (r *Reader) Losses() Losses {
	all := Losses{Lost: r.Lost()}
	for _, f := range r.files {
		m := f.Missing()
		all.Before, all.Between = all.Before+m.Before, all.Between+m.Between
		all.After, all.Unplaced = all.After+m.After, all.Unplaced+m.Unplaced
	}
	return all
}

// Encode writes the losses as a JSON object, if there are any.
func (l Losses) Encode(out io.Writer) error {
	if l.Lost == 0 && len(l.Unwatched) == 0 {
		return nil
	}
	return render.NewEncoder(out).Encode(l)
}

// Encode writes the losses of pods as a JSON object, if there are any.
func (l PodLosses) Encode(out io.Writer) error {
	if len(l.Pods) == 0 && len(l.Unwatched) == 0 {
		return nil
	}
	return render.NewEncoder(out).Encode(l)
}

// LossText describes the number of events that a recording has lost, and where they are
// missing.
func (f *File) LossText() string {
	m := f.Missing()
	var parts []string
	for _, part := range []struct {
		events uint64
		where  string
	}{
		{m.Before, "before its first one"}, {m.Between, "between its first one and " + time.Unix(0, m.Until).Format("15:04:05.000000")},
		{m.After, "after the last one that was read"}, {m.Unplaced, "at unknown times"},
	} {
		if part.events > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.events, part.where))
		}
	}
	if len(parts) == 1 {
		_, where, _ := strings.Cut(parts[0], " ")
		return render.Number(f.Lost(), "event") + " " + where
	}
	return render.Number(f.Lost(), "event") + ": " + strings.Join(parts, ", ")
}

// Keeps reports whether a recording has all events since a time of CLOCK_MONOTONIC, as far as is
// known.
func (f *File) Keeps(since time.Duration) bool {
	if since < f.past.sure {
		return false
	}
	if f.Reader == nil {
		return since > f.missed
	}
	return f.Reader.Keeps(since)
}

package postmortem

import (
	"context"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"
	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// maxErrors is the number of errors that are kept, the last ones, and maxRecent the number of
// events.
const maxErrors, maxRecent = 10, 10

// gatherer takes the events of a recording, and keeps what is shown of them.
type gatherer struct {
	operations pairing.Operations
	parts      *tree.Parts
	values     evaluate.Arguments
	rates      *rates
	trails     trails
	recent     ring // the last events of all threads
	failures   []failure
	failed     uint64
	events     uint64
	// first and last are the times of the first and the last event, by CLOCK_REALTIME.
	first, last int64
	until       time.Time // the time at which a living process was looked at, or zero
}

// failure is an event with an error. start is the operation that it has ended, or nil.
type failure struct {
	event recording.Event
	start *pairing.Operation
}

// newGatherer returns a gatherer for a recording whose last event has a time.
func newGatherer(last int64) *gatherer {
	return &gatherer{
		parts: tree.NewParts(), values: evaluate.Arguments{}, rates: newRates(last),
		trails: trails{all: map[thread]*trail{}}, recent: ring{most: maxRecent},
	}
}

// lastEvent returns the time of the last event of a recording, or 0.
func lastEvent(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err // opening it as a recording reports the reason
	}
	return recording.LastEvent(f, info.Size())
}

// read takes all events. After an error, those before the damage were taken.
func (g *gatherer) read(ctx context.Context, reader *replay.Reader) error {
	file := reader.Files()[0]
	for _, p := range reader.Probes() {
		g.operations.Know(p)
	}
	now, at := clock.Now(), time.Now()
	if alive, known := file.Alive(); alive && known {
		g.until = at
		g.rates.last = max(g.rates.last, at.UnixNano())
	}
	found, err := reader.More()
	if err == nil && found {
		_, err = reader.Each(ctx, g.take)
	}
	if !g.until.IsZero() {
		reader.Reach(now, at)
	}
	g.parts.Look()
	return err
}

// take takes an event.
func (g *gatherer) take(e *recording.Event, f *replay.File) error {
	if g.events++; g.events == 1 {
		g.first = e.Realtime
		g.rates.begin(e.Realtime)
	}
	g.last = max(g.last, e.Realtime)
	o := g.operations.Add(e, f)
	g.parts.Add(&o, e)
	if o.Replaced != nil {
		g.trails.end(o.Replaced)
	}
	if o.Started != nil {
		g.trails.start(o.Started)
	}
	g.trails.add(e)
	g.recent.add(e)
	failed := pairing.Failed(e)
	g.rates.probe(e, failed)
	var start *pairing.Operation
	if o.HasEnded {
		start = o.Ended.Start
		g.rates.operation(&o.Ended, e, failed)
		g.trails.end(start)
	}
	if failed && o.Started == nil {
		g.fail(e, start)
	}
	return nil
}

// fail keeps an event with an error.
func (g *gatherer) fail(e *recording.Event, start *pairing.Operation) {
	i := int(g.failed % maxErrors)
	if g.failed++; i == len(g.failures) {
		g.failures = append(g.failures, failure{})
	}
	keep(&g.failures[i].event, e)
	g.failures[i].start = start
}

// lastFailures returns the kept events with errors, the last first.
func (g *gatherer) lastFailures() (all []*failure) {
	for i := range g.failures {
		at := (int(g.failed%maxErrors) + 2*len(g.failures) - 1 - i) % len(g.failures)
		all = append(all, &g.failures[at])
	}
	return all
}

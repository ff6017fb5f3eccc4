//go:build linux

package source

import (
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/past"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// pasts delivers the events that processes have recorded, before their other events.
type pasts struct {
	*past.Reader
	source events.Source
}

// newPasts returns the pasts of a source that is attached now. began is when attaching began.
func newPasts(
	source events.Source, config *query.Config, o *events.Options, began time.Duration,
) pasts {
	var specs []spec.Choice
	if o.Past && config.Command == nil { // a COMMAND has no past
		specs = config.Specs
	}
	return pasts{past.NewReader(specs, began), source}
}

// deliver delivers the events that a process has recorded until a time of CLOCK_MONOTONIC. An event
// that fires later comes from the other source, which was attached then: a fire is recorded before
// others see it. f stands for the process.
func (p *pasts) deliver(until time.Duration, pid int, f *replay.File, to events.Consumer) error {
	var refused error
	p.Read(pid, until, f, p.starts, func(r *past.Recording) error {
		return r.Each(until, func(e *recording.Event) error {
			refused = to.Event(&events.Event{Event: e, File: f})
			return refused
		})
	})
	return refused
}

// deliverPasts delivers the pasts of the processes that were found before Run, if they are asked
// for.
func (k *kernel) deliverPasts(c events.Consumer) error {
	if !k.pasts.Asked() {
		return nil
	}
	slices.Sort(k.found)
	for _, pid := range slices.Compact(k.found) {
		if err := k.pasts.deliver(k.pasts.Attached, pid, k.process(uint32(pid)), c); err != nil {
			return err
		}
	}
	return nil
}

// starts returns the names of the selected probes that start operations.
func (p *pasts) starts() (names []string) {
	for _, probe := range p.source.Probes() {
		if name, isStart := spec.NameOf(probe.Name); name != "" && isStart {
			names = append(names, probe.Provider+":"+probe.Name)
		}
	}
	return names
}

package probetest

import (
	"slices"
	"sync"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// recorders are those of the process's running tests.
var recorders registry

type registry struct {
	mu   sync.Mutex
	list []*Recorder
}

func (g *registry) add(r *Recorder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(slices.Clip(g.list), r)
	report := g.report
	words.Misfire.Store(&report)
}

func (g *registry) remove(r *Recorder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = slices.DeleteFunc(slices.Clone(g.list), func(other *Recorder) bool { return other == r })
	if len(g.list) == 0 {
		words.Misfire.Store(nil)
	}
}

// report tells the recorders of a probe's provider of a fire with wrong arguments.
func (g *registry) report(probe any, err error) {
	g.mu.Lock()
	list := g.list
	g.mu.Unlock()
	for _, r := range list {
		if probe.(*stapsdt.Probe).Provider() == r.provider {
			r.misfired(err)
		}
	}
}

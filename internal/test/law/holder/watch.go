//go:build linux

package main

import (
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt"
)

// observation counts the events that an observer sees.
type observation struct {
	stop   func()
	counts map[string]*atomic.Int64
}

func observe(p *stapsdt.Provider) *observation {
	o := &observation{counts: map[string]*atomic.Int64{}}
	for _, probe := range p.Probes() {
		o.counts[probe.Name()] = new(atomic.Int64)
	}
	o.stop = p.Observe(func(e *stapsdt.Event) { o.counts[e.Probe().Name()].Add(1) })
	return o
}

// leave ends it and returns how many events were seen of each probe.
func (o *observation) leave() map[string]int64 {
	o.stop()
	seen := map[string]int64{}
	for name, count := range o.counts {
		seen[name] = count.Load()
	}
	return seen
}

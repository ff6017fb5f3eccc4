//go:build linux

package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// crewSize is how many goroutines work on each kind of operations.
const crewSize = 2

// pause is between two operations of a worker, so that tracers can follow.
const pause = time.Millisecond

// crew starts and ends operations all the time.
type crew struct {
	stop    atomic.Bool
	workers sync.WaitGroup
	done    map[string]*atomic.Int64
}

func work(kinds []kind) *crew {
	c := &crew{done: map[string]*atomic.Int64{}}
	for _, k := range kinds {
		done := new(atomic.Int64)
		c.done[k.name] = done
		for range crewSize {
			c.workers.Go(func() { c.work(k, done) })
		}
	}
	return c
}

// work holds a few operations at a time, so that a tracer that attaches or detaches always
// finds some in flight.
func (c *crew) work(k kind, done *atomic.Int64) {
	var few [8]end
	for i := 0; !c.stop.Load(); i++ {
		if end := few[i%len(few)]; end != nil {
			report(k.name, end())
			done.Add(1)
		}
		end, err := k.begin(i)
		report(k.name, err)
		few[i%len(few)] = end
		time.Sleep(pause)
	}
	for _, end := range few {
		if end != nil {
			report(k.name, end())
		}
	}
}

// goOn waits until the crew has done more operations of each kind.
func (c *crew) goOn() {
	for _, done := range c.done {
		for before := done.Load(); done.Load() == before; {
			time.Sleep(pause)
		}
	}
}

// rest ends the work and returns how many operations of each kind were done.
func (c *crew) rest() map[string]int64 {
	c.stop.Store(true)
	c.workers.Wait()
	all := map[string]int64{}
	for name, done := range c.done {
		all[name] = done.Load()
	}
	return all
}

//go:build linux

// Package operations pairs the events of two probes in the kernel: the starts of operations, and
// their ends.
package operations

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"

	"github.com/cilium/ebpf"
)

// Operations are those from the probe of the first spec of a selector to that of the second.
type Operations struct {
	// Plan and Tables are nil until there is a probe of each.
	Plan   *bpf.Latency
	Tables *bpf.OperationTables
	// Shared divides the room among the users of the machine.
	Shared bool

	goroutines probes.Goroutines
	purged     time.Time // when those of processes that have ended were last removed
}

// Prepare decides what is evaluated where, and makes the tables, unless that was done.
func (o *Operations) Prepare(s *probes.Selector, pairing bpf.Pairing) (err error) {
	if o.Plan != nil {
		return nil
	}
	plan, err := bpf.NewLatency(s.Specs[0].First, s.Specs[1].First, pairing)
	if err != nil {
		return err
	}
	if o.Tables, err = plan.NewTables(o.Shared); err != nil {
		return bpf.MapError(err)
	}
	o.Plan, o.purged = plan, time.Now()
	return nil
}

// IsStart reports whether a probe is that of the start, and not that of the end.
func IsStart(s *probes.Selector, provider, probe string) (bool, error) {
	start, end := s.Specs[0], s.Specs[1]
	isStart := start.Match(provider, probe)
	if isStart && end.Match(provider, probe) {
		return false, console.Usagef("both %v and %v name it", start, end)
	}
	return isStart, nil
}

// ProcessFound finds out where the goroutines of a process have their IDs, for operations that are
// paired by them. The error is why that is not known, once for each program that a process runs.
func (o *Operations) ProcessFound(env *bpf.Env, pid int) error {
	return o.goroutines.Find(env, pid)
}

// Open reads the operations that are open, of processes that exist.
func (o *Operations) Open() (open []layout.Open, err error) {
	open, _, err = divide(o.Tables.Open)
	return open, err
}

// divide reads the operations that are open, and those whose process has ended.
func divide(table *ebpf.Map) (open, dead []layout.Open, err error) {
	all, err := layout.ReadOpen(table)
	if err != nil {
		return nil, nil, err
	}
	lives := probes.Lives{}
	for _, o := range all {
		if lives.Has(o.PID) {
			open = append(open, o)
		} else {
			dead = append(dead, o)
		}
	}
	return open, dead, nil
}

// PurgeInterval is how often the operations of processes that have ended are removed.
const PurgeInterval = 10 * time.Second

// Due reports whether it is time for Purge.
func (o *Operations) Due() bool { return o.Plan != nil && time.Since(o.purged) >= PurgeInterval }

// Purge removes the operations that cannot end any more, because their process has, if that is Due.
func (o *Operations) Purge() error {
	if !o.Due() {
		return nil
	}
	o.purged = time.Now()
	o.goroutines.Purge()
	open, dead, err := divide(o.Tables.Open)
	if err != nil {
		return err
	}
	for _, d := range dead {
		_ = o.Tables.Open.Delete(d.Key) // a new process can have the number, and have ended it
	}
	if o.Tables.Shares == nil {
		return nil
	}
	counts := map[uint64]int64{}
	for _, one := range open {
		counts[one.Owner]++
	}
	return o.Tables.Shares.Set(counts)
}

// Close releases the tables.
func (o *Operations) Close() {
	o.Tables.Close()
	o.goroutines.Close()
}

//go:build linux

// Package operations pairs the events of two probes in the kernel: the starts of operations, and
// their ends.
package operations

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/follow"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/cilium/ebpf"
)

// Operations are the operations that start at the probe of a selector's first spec and end at the
// probe of its second spec.
type Operations struct {
	// Start, Plan and Tables are nil until both a start and an end exist. Start is the first start.
	Start  *bpf.Probe
	Plan   *bpf.Latency
	Tables *bpf.OperationTables
	// Shared divides the room among the users of the machine.
	Shared bool

	goroutines follow.Goroutines
	purged     time.Time // when operations of ended processes were last removed
}

// Prepare decides which expressions are evaluated where, and creates the tables, unless this was
// done already.
func (o *Operations) Prepare(s *probes.Selector, pairing query.Pairing) (err error) {
	if o.Plan != nil {
		return nil
	}
	first, last := s.Specs[0].First, s.Specs[1].First
	start := engine.NewProbe(first.File, first.Site)
	return o.PrepareFrom(start, engine.NewProbe(last.File, last.Site), pairing)
}

// PrepareFrom is Prepare for a start and an end, if Plan is nil.
func (o *Operations) PrepareFrom(start, end *bpf.Probe, pairing query.Pairing) error {
	plan, err := bpf.NewLatency(start, end, pairing)
	if err != nil {
		return err
	}
	if o.Tables, err = plan.NewTables(o.Shared); err != nil {
		return bpf.MapError(err)
	}
	o.Start, o.Plan, o.purged = start, plan, time.Now()
	return nil
}

// ProcessFound finds the offset of the goroutine IDs of a process, for operations that are paired
// by them. It returns the reason if the offset is unknown, once for each program that a process
// runs.
func (o *Operations) ProcessFound(env *bpf.Env, pid int) error {
	return o.goroutines.Find(env, pid)
}

// Open reads the open operations of processes that exist.
func (o *Operations) Open() (open []layout.Open, err error) {
	open, _, err = divide(o.Tables.Open)
	return open, err
}

// divide reads the open operations, and divides them by whether their process has ended.
func divide(table *ebpf.Map) (open, dead []layout.Open, err error) {
	all, err := layout.ReadOpen(table)
	if err != nil {
		return nil, nil, err
	}
	lives := proc.Lives{}
	for _, o := range all {
		if lives.Has(o.PID) {
			open = append(open, o)
		} else {
			dead = append(dead, o)
		}
	}
	return open, dead, nil
}

// PurgeInterval is the interval in which the operations of ended processes are removed.
const PurgeInterval = 10 * time.Second

// Due reports whether it is time for Purge.
func (o *Operations) Due() bool { return o.Plan != nil && time.Since(o.purged) >= PurgeInterval }

// Purge removes the operations that cannot end because their process has ended, if Due reports
// true.
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
		_ = o.Tables.Open.Delete(d.Key) // a new process with the same PID may have ended it
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

// Remove removes open operations.
func (o *Operations) Remove(which func(*layout.Open) bool) error {
	all, err := layout.ReadOpen(o.Tables.Open)
	if err != nil {
		return err
	}
	for i := range all {
		if which(&all[i]) {
			_ = o.Tables.Open.Delete(all[i].Key) // it may have ended meanwhile
		}
	}
	return nil
}

// Close releases the tables.
func (o *Operations) Close() {
	o.Tables.Close()
	o.goroutines.Close()
}

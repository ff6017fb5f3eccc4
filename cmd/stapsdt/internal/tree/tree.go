//go:build linux

// Package tree shows each operation that has ended as a tree, with the operations that it consists of.
package tree

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select the trees that are shown.
type Options struct {
	// JSON selects output for programs: each tree is an object.
	JSON bool
	// Limit is the number of trees after which the run ends, or 0 for none.
	Limit int
	// Slowest is the number of trees that are shown when the run ends: the trees whose roots took longest. If it is 0, each
	// tree is shown when its root has ended.
	Slowest int
	// Errors selects only trees in which an operation has failed.
	Errors bool
	// Request is the ID of the operation whose tree is shown, or "".
	Request string
	// From are the recordings to read instead of processes.
	From replay.From
}

// maxSlowest is the largest Options.Slowest.
const maxSlowest = 1000

// view shows trees. It is an events.Consumer.
type view struct {
	*console.Console
	options *Options
	builder builder
	growth  *growth // of the builder
	stream  *events.Stream
	writer  writer
	shown   int
	slowest []*tree // slowest trees in the order of their times, the slowest first
	kept    int     // operations in the slowest
	crowded bool    // fewer trees are kept than requested, because they have too many operations
}

// Run shows trees until the run ends. names are names of operations, PROVIDER:NAME.
func Run(ctx context.Context, to *console.Console, config run.Config, names []string, o Options) error {
	config.JSON = o.JSON
	switch {
	case o.Limit < 0:
		return console.Usagef("-n %d is negative", o.Limit)
	case o.Slowest < 0 || o.Slowest > maxSlowest:
		return console.Usagef("--slowest must be between 0 and %d", maxSlowest)
	case o.Slowest > 0 && o.Limit > 0:
		return console.Usagef("-n and --slowest exclude each other: --slowest is the number of trees")
	}
	v := &view{Console: to, options: &o, writer: writer{color: console.Colored(to.Out)}}
	if console.IsTerminal(to.Out) {
		v.writer.width = console.Columns(to.Out)
	}
	from, err := v.plan(&config, names)
	if err != nil {
		return err
	}
	if v.stream, err = events.Open(to, &config, from); err != nil {
		return err
	}
	defer v.stream.Close()
	v.stream.Announce()
	v.lost()
	if err := v.stream.Run(ctx, v); err != nil {
		return err
	}
	for _, t := range slices.Concat(v.slowest, v.unfinished()) {
		if err := v.show(t); err != nil {
			return err
		}
	}
	return v.report()
}

// plan creates the forest or the calls from which trees are built, and returns the options of the stream.
func (v *view) plan(config *run.Config, names []string) (events.Options, error) {
	functions, err := events.Functions(names)
	switch {
	case err != nil:
		return events.Options{}, err
	case functions && v.options.Request != "":
		return events.Options{}, console.Usagef("calls of functions have no ID for --request")
	case functions && v.options.From.Given():
		return events.Options{}, console.Usagef("recordings do not tell the depth of calls, by which calls of functions are nested")
	case functions:
		c := newCalls(v.finished)
		v.builder, v.growth = c, &c.growth
		return events.NewCalls(config, names)
	}
	plan, err := events.NewPlan(config, names, nil)
	if err != nil {
		return events.Options{}, err
	}
	f := newForest(plan.Where, v.finished)
	v.builder, v.growth = f, &f.growth
	return plan.Options(v.options.From), nil
}

// lost notes how many events were lost, for the trees whose roots begin now.
func (v *view) lost() { v.growth.lost = v.stream.Lost() }

// report prints the numbers of trees and events that are not shown.
func (v *view) report() error {
	err := v.stream.Report(events.Unended, 0)
	v.builder.report(v.Console)
	open, unknown := v.growth.trees.Len(), v.growth.unknown()
	if v.options.Request != "" {
		open, unknown = 0, 0 // they are shown
		if v.shown == 0 {
			v.Warn("no operation with the ID %s that is part of no other one", v.options.Request)
		}
	}
	if open > unknown && v.options.Limit == 0 {
		v.Warn("%s not shown, whose roots had not ended", render.Number(open-unknown, "tree"))
	}
	if unknown > 0 && v.options.Limit == 0 {
		v.Warn("%s not shown, the ends of whose roots may be lost", render.Number(unknown, "tree"))
	}
	if n := v.growth.dropped; n > 0 {
		v.Warn("%d operations had no room in their trees, of which each has %d", n, maxPerTree)
	}
	if v.crowded {
		v.Warn("fewer trees are shown than --slowest %d, because they have more than %d operations", v.options.Slowest, maxNodes)
	}
	if n := v.growth.givenUp; n > 0 {
		v.Warn("%d trees were given up, because more than %d operations were in trees that had not ended", n, maxNodes)
	}
	return err
}

func (v *view) Event(e *events.Event) error { return v.builder.add(e) }

func (v *view) Know(p *recording.Probe) { v.builder.know(p) }

func (v *view) Gone(f *replay.File) { v.builder.forget(f) }

func (v *view) Tick() (next time.Duration, more bool, err error) {
	v.lost()
	return engine.Rest, true, nil
}

// finished handles a selected tree whose root has ended: it shows the tree, or keeps it if it is among the slowest.
func (v *view) finished(t *tree, ended replay.Ended) error {
	if !ended.Selected || v.options.Errors && !t.failed || !t.requested(v.options.Request) {
		return nil
	}
	t.lost = v.stream.Lost() - t.lost
	if v.options.Slowest == 0 {
		if err := v.show(t); err != nil {
			return err
		}
		if v.shown == v.options.Limit {
			return live.ErrEnough
		}
		return nil
	}
	v.keep(t)
	return nil
}

// keep keeps a tree if it is among the slowest.
func (v *view) keep(t *tree) {
	at, _ := slices.BinarySearchFunc(v.slowest, t, func(a, b *tree) int {
		if a.root.took >= b.root.took {
			return -1
		}
		return 1
	})
	if at < v.options.Slowest {
		v.slowest = slices.Insert(v.slowest, at, t)
		v.kept += t.nodes
	}
	for last := len(v.slowest) - 1; last >= v.options.Slowest || v.kept > maxNodes; last-- {
		v.crowded = v.crowded || last < v.options.Slowest
		v.kept -= v.slowest[last].nodes
		v.slowest = v.slowest[:last]
	}
}

// unfinished returns the trees with the requested ID whose roots have not ended.
func (v *view) unfinished() (all []*tree) {
	if v.options.Request == "" { // functions have none
		return nil
	}
	for e := v.growth.trees.Front(); e != nil; e = e.Next() {
		if t := e.Value.(*tree); t.requested(v.options.Request) {
			t.lost, t.root.took = v.stream.Lost()-t.lost, max(t.root.process.Last()-t.root.since, 0)
			all = append(all, t)
		}
	}
	return all
}

// requested reports whether the root of the tree has the ID, or the ID is "".
func (t *tree) requested(id string) bool {
	return id == "" || slices.Contains([]string{id, strconv.Quote(id)}, t.key.ForText())
}

// show writes a tree.
func (v *view) show(t *tree) error {
	v.shown++
	if v.options.JSON {
		return t.encode(v.Out)
	}
	text := v.writer.text(t)
	if v.shown > 1 {
		text = append([]byte("\n"), text...)
	}
	_, err := v.Out.Write(text)
	return err
}

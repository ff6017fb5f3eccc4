// Package tree shows each operation that has ended as a tree, with the operations that it
// consists of.
package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Options select the trees that are shown.
type Options struct {
	// Limit is the number of trees after which the run ends, or 0 for none.
	Limit int
	// Slowest is the number of trees that are shown when the run ends: the trees whose roots took
	// longest. If it is 0, each tree is shown when its root has ended.
	Slowest int
	// Errors selects only trees in which an operation has failed.
	Errors bool
	// Open also selects the trees whose roots have not ended when the run or their process ends.
	// Those of a recording are always selected.
	Open bool
	// Key has lists of expressions that pair the events of operations, in place of their first
	// arguments.
	Key []string
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
	format  query.Format
	builder builder
	growth  *growth // of the builder
	stream  *events.Stream
	writer  writer
	shown   int
	slowest []*tree // slowest trees in the order of their times, the slowest first
	kept    int     // operations in the slowest
	crowded bool    // fewer trees are kept than requested, because they have too many operations
	err     error   // the error of showing the trees of a process that has ended
	// excluded counts the trees that are not selected, unended the trees with a root that has
	// not ended, and unknown the trees in which the end of the root may have been lost.
	excluded, unended, unknown int
}

// Run shows trees until the run ends. The specs of the configuration are names of operations,
// PROVIDER:NAME, or functions.
func Run(ctx context.Context, to *console.Console, config query.Config, o Options) error {
	switch {
	case o.Limit < 0:
		return query.Usagef("-n %d is negative", o.Limit)
	case o.Slowest < 0 || o.Slowest > maxSlowest:
		return query.Usagef("--slowest must be between 0 and %d", maxSlowest)
	case o.Slowest > 0 && o.Limit > 0:
		return query.Usagef("-n and --slowest cannot be combined: --slowest is the number of trees")
	}
	writer := writer{color: console.Colored(to.Out), width: console.Columns(to.Out)}
	v := &view{Console: to, options: &o, format: config.Format, writer: writer}
	config, from, err := v.plan(config)
	if err != nil {
		return err
	}
	if v.stream, err = source.Open(to, &config, from); err != nil {
		return err
	}
	defer v.stream.Close()
	v.writer.pods = v.stream.Pods
	v.stream.Announce()
	v.lost()
	if err := v.stream.Run(ctx, v); err != nil {
		return err
	}
	if err := errors.Join(v.err, v.showOpen(nil)); err != nil {
		return err
	}
	for _, t := range v.slowest {
		if err := v.show(t); err != nil {
			return err
		}
	}
	return v.report()
}

// plan creates the forest or the calls from which trees are built, and returns the configuration
// and the options of the stream.
func (v *view) plan(config query.Config) (query.Config, events.Options, error) {
	functions, err := events.Functions(config.Specs)
	switch {
	case err != nil:
		return config, events.Options{}, err
	case functions && len(v.options.Key) > 0:
		return config, events.Options{}, query.Usagef("calls of functions are paired with their returns by their goroutine and their depth: leave out --key")
	case functions && v.options.Request != "":
		return config, events.Options{}, query.Usagef("calls of functions have no ID for --request")
	case functions && v.options.From.Given():
		return config, events.Options{}, query.Usagef("recordings do not have the depth of calls, which is needed to nest calls of functions")
	case functions:
		c := newCalls(v.finished)
		v.builder, v.growth = c, &c.growth
		return events.NewCalls(config)
	}
	plan, err := events.NewPlan(config, nil, v.options.Key)
	if err != nil {
		return config, events.Options{}, err
	}
	f := newForest(plan.Operations(), v.finished)
	v.builder, v.growth = f, &f.growth
	return plan.Config, plan.Options(v.options.From), nil
}

// lost notes how many events were lost, for the trees whose roots begin now.
func (v *view) lost() { v.growth.lost = v.stream.Lost() }

// report prints the numbers of trees and events that are not shown.
func (v *view) report() error {
	err := v.stream.Report(events.Unended, 0)
	v.builder.report(v.Console)
	switch {
	case v.full():
	case v.shown == 0 && v.options.Request != "":
		err = cmp.Or(err, fmt.Errorf("%w: no root operation has the ID %s", query.ErrNothing, v.options.Request))
	case v.shown == 0 && v.excluded > 0:
		v.Warn("%s not shown: excluded by the conditions", render.Number(v.excluded, "tree"))
	case v.shown+v.unended+v.unknown == 0:
		since := ""
		if v.stream.Live {
			since = " since " + v.stream.Past.Since().Format(time.TimeOnly)
		}
		v.Warn("no tree is shown: no operation has begun%s", since)
	}
	if v.unended > 0 && !v.full() {
		v.Warn("%s not shown: the root had not ended", render.Number(v.unended, "tree"))
	}
	if v.unknown > 0 && !v.full() {
		v.Warn("%s not shown: the end of the root may have been lost", render.Number(v.unknown, "tree"))
	}
	if n := v.growth.dropped; n > 0 {
		v.Warn("%d operations had no room in their trees: a tree has at most %d", n, maxPerTree)
	}
	if v.crowded {
		v.Warn("fewer trees are shown than --slowest %d, because they have more than %d operations", v.options.Slowest, maxNodes)
	}
	v.stream.Past.Report(v.Console)
	if n := v.growth.givenUp; n > 0 {
		v.Warn("%d trees were given up, because more than %d operations were in trees that had not ended", n, maxNodes)
	}
	return err
}

func (v *view) Event(e *events.Event) error { return v.builder.add(e) }

func (v *view) Know(p *recording.Probe) { v.builder.know(p) }

func (v *view) Gone(f *replay.File) {
	v.err = errors.Join(v.err, v.showOpen(f))
	v.builder.gone(f)
}

func (v *view) Tick() (next time.Duration, more bool, err error) {
	v.lost()
	return query.Rest, !v.full(), v.err
}

// full reports whether the number of trees after which the run ends was shown.
func (v *view) full() bool { return v.options.Limit > 0 && v.shown >= v.options.Limit }

// finished handles a selected tree whose root has ended: it shows the tree, or keeps it if it is
// among the slowest.
func (v *view) finished(t *tree, ended pairing.Ended) error {
	if !ended.Selected || v.options.Errors && !t.failed || !t.requested(v.options.Request) {
		v.excluded++
		return nil
	}
	t.lost = v.stream.Lost() - t.lost
	if v.options.Slowest == 0 {
		if err := v.show(t); err != nil {
			return err
		}
		if v.full() {
			return replay.ErrEnough
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
		t.kept = true
	}
	for last := len(v.slowest) - 1; last >= v.options.Slowest || v.kept > maxNodes; last-- {
		v.crowded = v.crowded || last < v.options.Slowest
		v.kept -= v.slowest[last].nodes
		v.slowest = v.slowest[:last]
	}
}

// showOpen handles the unfinished trees of a process, or of all processes if file is nil: it shows
// the selected ones, and counts the others.
func (v *view) showOpen(file *replay.File) error {
	for e := v.growth.trees.Front(); e != nil && !v.full(); e = e.Next() {
		t := e.Value.(*tree)
		root := t.root
		switch {
		case file != nil && root.process != file:
			continue
		case v.options.Request != "":
			t.meets = events.True
		case !root.isOpen():
			v.unknown++
			continue
		case t.meets == events.Absent || !v.options.Open && v.stream.Live:
			v.unended++
			continue
		}
		root.took = max(root.process.Last()-root.since, 0)
		err := v.finished(t, pairing.Ended{Selected: t.meets == events.True})
		if err != nil && !errors.Is(err, replay.ErrEnough) {
			return err
		}
	}
	return nil
}

// requested reports whether the root of the tree has the ID, or the ID is "".
func (t *tree) requested(id string) bool {
	return id == "" || slices.Contains([]string{id, strconv.Quote(id)}, t.key.ForText())
}

// show writes a tree.
func (v *view) show(t *tree) error {
	v.shown++
	if v.format.IsJSON() {
		return t.encode(v.Out, v.stream)
	}
	text := v.writer.text(t)
	if v.shown > 1 {
		text = append([]byte("\n"), text...)
	}
	_, err := v.Out.Write(text)
	return err
}

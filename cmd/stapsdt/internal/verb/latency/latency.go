// Package latency measures, in the kernel or from a stream of events, the times of operations that
// start at one probe and end at another.
package latency

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/functions"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// times are the times of operations, from their paired events.
type times interface {
	// Rows returns the times of the operations that have ended.
	Rows() ([]*count.Row[*operation], error)
	// unpaired returns the unpaired events of each kind.
	unpaired() ([]unpaired, error)
	// detached returns the detachment of the probes of a kind, or nil.
	detached(o *operation) *query.Detachment
}

// latency shows the times of operations.
type latency struct {
	*console.Console
	source  times
	options count.Options
	format  query.Format
	pairs   *pairs
	kinds   kinds
	where   string
	screen  console.Screen
	past    *events.Past // nil for recordings
	// interval is the time between two screens.
	interval *query.Interval
}

// Run measures operations until the run ends, and shows their times. The specs of the configuration
// are those of the command line: the probes of the start and of the end, or the name before their
// __start and __end. key has lists of expressions with equal values at a start and its end.
func Run(
	ctx context.Context, to *console.Console, config query.Config, key []string, o count.Options,
) (err error) {
	l := &latency{Console: to, options: o, format: config.Format, where: config.Where}
	l.screen.Console = to
	if key, err = query.SplitExprs(key); err != nil {
		return err
	}
	if l.pairs, err = newPairs(config.Specs, key); err != nil {
		return err
	}
	if l.options.By, err = query.SplitExprs(o.By); err != nil {
		return err
	}
	if l.tabulates() {
		config.Specs = config.Specs[:1]
		return functions.Run(ctx, to, config, l.options)
	}
	if err := l.pairs.keyless; err != nil && (config.All || config.Await || config.Command != nil) {
		return err // the probes may come late, or never
	}
	if err := o.Check(); err != nil {
		return err
	}
	l.kinds.pairs = l.pairs
	if o.From.Given() && l.pairs.functions {
		return functions.ErrRecorded
	}
	if slices.Contains(l.pairs.key, query.Goroutine) && !config.Given() && !o.From.Given() {
		return query.Usagef("--key goroutine needs to know the processes: give -p PID, or -a for all")
	}
	if l.interval, err = l.options.NewInterval(); err != nil {
		return err
	}
	config.Specs, config.Kernel = l.pairs.specs(), l.onlyKernel()
	asked := config
	asked.Where = ""
	options := events.Options{From: o.From, Needs: l.needs(), Past: true}
	route, err := source.Choose(to, &asked, options)
	if err != nil {
		return err
	}
	if route.Stream == nil {
		return l.runTraced(ctx, config, route)
	}
	defer route.Stream.Close()
	return l.runStream(ctx, route.Stream)
}

// tabulates reports whether functions are shown in a table, which --by function selects, or a
// pattern of functions. If so, it removes function from --by.
func (l *latency) tabulates() bool {
	if !l.pairs.functions {
		return false
	}
	by, selected := functions.CutBy(l.options.By)
	if !selected && (l.options.Histograms || !l.pairs.start.Pattern.IsGlob()) {
		return false
	}
	l.options.By = by
	return true
}

// tick shows the times if that is due.
func (l *latency) tick() (next time.Duration, more bool, err error) {
	due, next := l.interval.Due()
	if due {
		err = l.show(false)
	}
	return next, true, err
}

// onlyKernel returns what only the kernel knows of an operation, or "".
func (l *latency) onlyKernel() string {
	return query.KeyNeedsThread(l.pairs.key, append(slices.Clone(l.options.By), l.where)...)
}

// needs returns the requirements for a program's own events: both probes, and expressions that
// fit one of the two.
func (l *latency) needs() replay.Needs {
	return replay.Needs{All: func(all []*recording.Probe) error {
		trial := &streamed{latency: &latency{
			options: l.options, pairs: l.pairs, kinds: kinds{pairs: l.pairs},
		}}
		return trial.pair(all, l.where)
	}}
}

// pairs defines the probes that belong together.
type pairs struct {
	named bool // whether the command line names operations instead of their probes
	// functions means that the operations are calls of functions.
	functions  bool
	start, end spec.Choice
	key        []string
	// keyless is the error that no key follows from the specs, or nil. The error for a probe that
	// does not exist comes first, because a wrong name can be the reason.
	keyless error
}

func (p *pairs) specs() []spec.Choice { return []spec.Choice{p.start, p.end} }

// isStart reports whether a probe is the start, and not the end.
func (p *pairs) isStart(provider, probe string) (bool, error) {
	isStart, err := spec.IsStart(&p.start, &p.end, provider, probe)
	if err != nil {
		err = query.Usagef("%w", err)
	}
	return isStart, err
}

// newPairs returns the start and the end of one or two specs, and the key that pairs their events.
func newPairs(specs []spec.Choice, key []string) (p *pairs, err error) {
	p = &pairs{key: key}
	if len(specs) == 1 {
		if p.named = true; specs[0].Functions {
			return p, p.function(specs[0])
		}
		if specs, err = pairing.OperationSpecs(specs); err != nil {
			return nil, err
		}
	}
	if p.start, p.end = specs[0], specs[1]; p.start == p.end {
		return nil, query.Usagef("the start and the end are the same probe: %v", p.start)
	}
	if p.start.Functions && p.end.Functions && len(p.key) == 0 {
		p.key = []string{query.Goroutine}
	}
	if len(p.key) == 0 {
		start, ok1 := strings.CutSuffix(p.start.String(), "_start")
		end, ok2 := strings.CutSuffix(p.end.String(), "_end")
		if !ok2 {
			end, ok2 = strings.CutSuffix(p.end.String(), "_done")
		}
		if !ok1 || !ok2 || start != end {
			p.keyless = query.Usagef("no key pairs %v with %v: give --key arg0 or another expression, --key goroutine or --key thread", p.start, p.end)
		}
		p.key = []string{"arg0"}
	}
	return p, nil
}

// function pairs the calls of functions with their returns.
func (p *pairs) function(calls spec.Choice) error {
	if calls.IsLine() {
		return query.Usagef("a line has no end: give a second SPEC, such as that of a later line, to measure from %v to it", calls)
	}
	if calls.Returns {
		return query.Usagef("latency pairs calls with their returns: give %s", calls.Calls())
	}
	call := []string{query.Call}
	if len(p.key) > 0 && !slices.Equal(p.key, call) {
		return query.Usagef("a call is paired with its return by its goroutine and its depth: leave out --key")
	}
	p.functions, p.key = true, call
	p.start, p.end = calls, spec.Choice{Spec: calls.Suffixed(spec.ReturnSuffix)}
	return nil
}

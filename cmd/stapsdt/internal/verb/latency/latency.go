// Package latency measures, in the kernel or from a stream of events, the times of operations that
// start at one probe and end at another.
package latency

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
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
	// interval is the time between two screens.
	interval *query.Interval
}

// Run measures operations until the run ends, and shows their times. names are from the command line: the probes of the
// start and of the end, or the name before their __start and __end. key is an expression with equal values at a start
// and its end, or "".
func Run(
	ctx context.Context, to *console.Console, config query.Config,
	names []string, key string, o count.Options,
) (err error) {
	l := &latency{Console: to, options: o, format: config.Format, where: config.Where}
	l.screen.Console = to
	if l.pairs, err = newPairs(names, key); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if l.options.By, err = query.SplitExprs(o.By); err != nil {
		return err
	}
	l.kinds.pairs = l.pairs
	if o.From.Given() && l.pairs.functions {
		return console.Usagef("recordings do not have the depth of calls, which is needed to pair calls of functions with their returns")
	}
	if l.pairs.key == query.Goroutine && !config.Given() && !o.From.Given() {
		return console.Usagef("--key goroutine needs to know the processes: give -p PID, or -a for all")
	}
	if l.interval, err = l.options.NewInterval(); err != nil {
		return err
	}
	asked, needs := config, l.needs()
	asked.Specs, asked.Others, asked.Where = l.pairs.specs, l.pairs.others, ""
	stream, err := source.Outside(to, &asked, events.Options{From: o.From, Needs: needs})
	if err != nil {
		return err
	}
	if stream != nil {
		defer stream.Close()
		return l.runStream(ctx, stream)
	}
	return l.runTraced(ctx, config, needs.Kernel)
}

// tick shows the times if that is due.
func (l *latency) tick() (next time.Duration, more bool, err error) {
	due, next := l.interval.Due()
	if due {
		err = l.show(false)
	}
	return next, true, err
}

// needs returns the requirements for a program's own events: both probes, and expressions that fit one of the two.
func (l *latency) needs() replay.Needs {
	n := replay.Needs{}
	n.Kernel = query.UsesThread(slices.Concat(l.options.By, []string{l.where, l.pairs.key})...)
	if l.pairs.key == query.Thread {
		n.Kernel = "--key thread"
	}
	n.All = func(all []*recording.Probe) error {
		trial := &streamed{latency: &latency{options: l.options, pairs: l.pairs, kinds: kinds{pairs: l.pairs}}}
		return trial.pair(all, l.where)
	}
	return n
}

// pairs defines the probes that belong together.
type pairs struct {
	named bool // whether the command line names operations instead of their probes
	// functions means that the operations are calls of functions.
	functions bool
	specs     []string
	others    map[string]string // the alternative of the second spec
	key       string

	start, end spec.Choice // the specs
}

// parse parses the specs.
func (p *pairs) parse() error {
	both, err := spec.ParseChoices(p.specs, p.others)
	if err != nil {
		return console.Usagef("%w", err)
	}
	p.start, p.end = both[0], both[1]
	return nil
}

// isStart reports whether a probe is the start, and not the end.
func (p *pairs) isStart(provider, probe string) (bool, error) {
	isStart, err := spec.IsStart(&p.start, &p.end, provider, probe)
	if err != nil {
		err = console.Usagef("%w", err)
	}
	return isStart, err
}

// newPairs returns the specs of the start and of the end, and the key that pairs their events.
func newPairs(names []string, key string) (*pairs, error) {
	p := &pairs{key: key}
	switch len(names) {
	case 1:
		if spec, err := spec.Parse(names[0]); err == nil && spec.Functions {
			if err := p.function(names[0]); err != nil {
				return nil, err
			}
			return p, p.parse()
		}
		p.named = true
		var err error
		if p.specs, p.others, err = replay.OperationSpecs(names); err != nil {
			return nil, err
		}
	case 2:
		p.specs = names
	default:
		return nil, console.Usagef("latency takes the probes of the start and of the end, or the name that their __start and __end follow")
	}
	if p.specs[0] == p.specs[1] {
		return nil, console.Usagef("the start and the end are the same probe: %s", p.specs[0])
	}
	if p.key == "" {
		start, ok1 := strings.CutSuffix(p.specs[0], "_start")
		end, ok2 := strings.CutSuffix(p.specs[1], "_end")
		if !ok2 {
			end, ok2 = strings.CutSuffix(p.specs[1], "_done")
		}
		if !ok1 || !ok2 || start != end {
			return nil, console.Usagef("no key pairs a start with its end: give --key arg0 or another expression, --key goroutine or --key thread")
		}
		p.key = "arg0"
	}
	return p, p.parse()
}

// function pairs the calls of functions with their returns.
func (p *pairs) function(name string) error {
	if strings.HasSuffix(name, spec.ReturnSuffix) {
		return console.Usagef("latency pairs calls with their returns: give %s", strings.TrimSuffix(name, spec.ReturnSuffix))
	}
	if p.key != "" && p.key != query.Call {
		return console.Usagef("a call is paired with its return by its goroutine and its depth: leave out --key")
	}
	p.named, p.functions, p.key = true, true, query.Call
	p.specs = []string{name, name + spec.ReturnSuffix}
	return nil
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"

	"github.com/spf13/cobra"
)

// latency counts in the kernel how long operations take, which start at one probe and end at
// another.
type latency struct {
	hist
	key string

	named      bool // whether the command line names operations, and not their probes
	plan       *program.Latency
	operations *program.OperationTables
	kinds      []*operation // by their numbers
	goroutines goroutines
	swept      time.Time // when operations of processes that have ended were last removed
	full       uint64    // starts for which there was no room
}

// operation is a kind of operation, which is the subject of a row.
type operation struct{ start, end string }

// String returns both probes, with their file once if it is the same.
func (o *operation) String() string {
	end := o.end
	if file := strings.LastIndexByte(o.start, '/'); file >= 0 {
		file += strings.IndexByte(o.start[file:], ':') + 1
		end = strings.TrimPrefix(end, o.start[:file])
	}
	return o.start + " → " + end
}

func (o *operation) json() string {
	return fmt.Sprintf(`"start":%s,"end":%s`, render.AppendJSONString(nil, o.start), render.AppendJSONString(nil, o.end))
}

func (s *session) latencyCommand() *cobra.Command {
	l := &latency{hist: hist{aggregate: aggregate{tracing: tracing{session: s}}}}
	c := &cobra.Command{
		Use:   "latency START END | SPEC (-p PID | -a | with FILE in each)",
		Short: "Print how long operations take, from one probe to another",
		Long: `Pair the events of two probes in the kernel, until Ctrl-C, and print a histogram and
quantiles of the time between, the numbers of starts and ends that have no counterpart, and
the operations that have been open longest.

START and END are [FILE:]PROVIDER:PROBE. A single SPEC stands for SPEC__start and SPEC__end or SPEC__done.
Such probes are paired by their first argument, which is the id of a span. Others need --key.`,
		Example: `  stapsdt latency -p 1234 myapp:query
  stapsdt latency -p 1234 myapp:query__start myapp:query__end --by 'text,error != ""'
  stapsdt latency -p 1234 myapp:begin myapp:done --key goroutine
  stapsdt latency postgres:postgresql:query__start postgres:postgresql:query__done --key thread`,
		RunE: func(c *cobra.Command, args []string) error { return l.run(c.Context(), args) },
	}
	l.flags(c)
	c.Flags().StringVar(&l.key, "key", "", "what a start and its end have in common: `EXPR`, a Go expression of the arguments of both, or goroutine, or thread")
	return c
}

func (l *latency) run(ctx context.Context, args []string) error {
	specs, err := l.pair(args)
	if err != nil {
		return err
	}
	if err := l.divide(); err != nil {
		return err
	}
	l.together, l.load, l.tick = true, l.section, l.sweep
	if l.key == program.Goroutine {
		if !l.where.all && len(l.where.pids) == 0 {
			return usagef("--key goroutine needs to know the processes: give -p PID, or -a for all")
		}
		l.found = l.findGoroutines
	}
	l.swept = time.Now()
	defer l.closeTables()
	if err := l.aggregate.run(ctx, specs, l.show); err != nil {
		return err
	}
	if l.full > 0 {
		l.warn("%d starts are not included, because more than %d operations were open", l.full, program.MaxOpen)
	}
	return nil
}

// pair returns the specs of the start and of the end, and decides what pairs them.
func (l *latency) pair(args []string) (specs []string, err error) {
	switch len(args) {
	case 1:
		l.named, specs = true, []string{args[0] + "__start", args[0] + "__end"}
		l.others = map[string]string{specs[1]: args[0] + "__done"}
	case 2:
		specs = args
	default:
		return nil, usagef("latency takes the probes of the start and of the end, or the name that their __start and __end follow")
	}
	if specs[0] == specs[1] {
		return nil, usagef("the start and the end are the same probe: %s", specs[0])
	}
	if l.key == "" {
		start, ok1 := strings.CutSuffix(specs[0], "_start")
		end, ok2 := strings.CutSuffix(specs[1], "_end")
		if !ok2 {
			end, ok2 = strings.CutSuffix(specs[1], "_done")
		}
		if !ok1 || !ok2 || start != end {
			return nil, usagef("which start belongs to which end? Give --key arg0 or another expression, --key goroutine or --key thread")
		}
		l.key = "arg0"
	}
	return specs, nil
}

// findGoroutines finds out where the goroutines of a process have their IDs.
func (l *latency) findGoroutines(pid int) error {
	err := l.goroutines.find(l.env, pid)
	switch {
	case err == nil:
		return nil
	case !l.where.all && !l.running:
		return usagef("%w; give --key arg0 or another expression, or --key thread", err)
	}
	l.Problem(fmt.Errorf("%w; its events are not included", err))
	return nil
}

// section returns what is done at a start or at an end.
func (l *latency) section(p *program.Probe, id uint32) (*program.Section, error) {
	if l.plan == nil {
		if err := l.prepare(); err != nil {
			return nil, err
		}
	}
	start, end := l.selector.Specs[0], l.selector.Specs[1]
	isStart, isEnd := start.Match(p.Provider, p.Name), end.Match(p.Provider, p.Name)
	if isStart && isEnd {
		return nil, usagef("both %v and %v name it", start, end)
	}
	kind, err := l.kind(p, isStart)
	if err != nil {
		return nil, err
	}
	if isStart {
		return l.plan.Start(l.env, program.Operations{OperationTables: l.operations, Kind: kind}, p)
	}
	agg, err := l.plan.NewEnd(p, l.buckets)
	if err != nil {
		return nil, err
	}
	c := &counted{Aggregate: agg, of: l.kinds[kind]}
	return l.count(c, func() (*program.Section, error) {
		return l.plan.End(l.env, program.Operations{OperationTables: l.operations, Kind: kind}, agg, c.table, uint32(len(l.counted)))
	})
}

// prepare decides what is evaluated where, and makes the tables.
func (l *latency) prepare() error {
	plan, err := program.NewLatency(l.selector.Specs[0].First, l.selector.Specs[1].First, program.Pairing{Key: l.key, Where: splitWhere(l.filter), By: l.by, Details: true})
	if err != nil {
		return err
	}
	if l.operations, err = plan.NewTables(); err != nil {
		return program.MapError(err)
	}
	l.plan = plan
	return nil
}

// kind returns the number of the kind of operation that a probe starts or ends.
func (l *latency) kind(p *program.Probe, isStart bool) (uint32, error) {
	o := &operation{l.selector.Specs[0].String(), l.selector.Specs[1].String()}
	switch {
	case l.named && isStart:
		o.start = p.String()
		o.end = strings.TrimSuffix(o.start, "start") + "end"
	case l.named:
		o.end = p.String()
		o.start = strings.TrimSuffix(strings.TrimSuffix(o.end, "end"), "done") + "start"
	}
	for i, known := range l.kinds {
		if l.named && known.start == o.start { // by whichever of __end and __done there is
			if !isStart {
				known.end = o.end
			}
			return uint32(i), nil
		}
	}
	for i, known := range l.kinds {
		if *known == *o {
			return uint32(i), nil
		}
	}
	if len(l.kinds) == program.MaxKinds {
		return 0, fmt.Errorf("too many different operations: at most %d are measured at a time", program.MaxKinds)
	}
	l.kinds = append(l.kinds, o)
	return uint32(len(l.kinds) - 1), nil
}

func (l *latency) closeTables() {
	l.operations.Close()
	l.goroutines.Close()
}

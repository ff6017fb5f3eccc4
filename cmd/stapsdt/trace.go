//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"
)

type trace struct {
	tracing
	output   string
	count    uint64
	show     []string
	textSize int
	verbose  bool

	ring    *ebpf.Map
	stream  *event.Stream
	lines   render.Lines
	sources []*render.Source // by the numbers of the probes
	sizes   []int
	shown   uint64
	lost    uint64 // that were reported
}

// ringSize holds what two threads fire in a tenth of a second.
const ringSize = 16 << 20

// maxText is what a program can read of a text without touching a third page.
const maxText = 4000

func (s *session) traceCommand() *cobra.Command {
	t := &trace{tracing: tracing{session: s}}
	c := &cobra.Command{
		Use:   "trace (SPEC... (-p PID | -a | with FILE in each SPEC) | http://HOST/debug/probes/ [SPEC...])",
		Short: "Print a line for each event",
		Long: `Print a line for each event of the probes, in the order of their times, until Ctrl-C.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a says which processes are meant.

An address is that of a program that mounts debugprobe. The program itself then sends the
events, and evaluates the expression of -w. This needs neither root nor Linux there.`,
		Example: `  stapsdt trace -p 1234 'myapp:*'
  stapsdt trace http://localhost:8080/debug/probes/ 'myapp:*' -w 'status >= 500'
  stapsdt trace -a myapp:request__done -w 'status >= 500'
  stapsdt trace postgres:postgresql:query__start --show 'pid,str(arg0)'`,
		RunE: func(c *cobra.Command, args []string) error { return t.run(c.Context(), args) },
	}
	t.flags(c)
	outputFlag(c, &t.output)
	c.Flags().Uint64VarP(&t.count, "number", "n", 0, "end after `N` events")
	c.Flags().StringArrayVar(&t.show, "show", nil, "the values of the Go expressions `EXPR,...` instead of all arguments; str(arg0) is the text at arg0")
	c.Flags().IntVar(&t.textSize, "strlen", 256, fmt.Sprintf("show at most `N` bytes of a text, up to %d", maxText))
	c.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "show the fields of structs that arguments point to")
	return c
}

func (t *trace) run(ctx context.Context, specs []string) (err error) {
	if err := checkOutput(t.output); err != nil {
		return err
	}
	if t.textSize < 1 || t.textSize > maxText {
		return usagef("--strlen must be between 1 and %d", maxText)
	}
	if t.count == 0 {
		t.count = math.MaxUint64
	}
	if t.show, err = splitExprs(t.show); err != nil {
		return err
	}
	if len(specs) > 0 && remote.IsAddress(specs[0]) {
		return t.watchRemote(ctx, specs[0], specs[1:])
	}
	defer t.close()
	t.load = t.section
	if err := t.open(specs); err != nil {
		return err
	}
	if t.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: ringSize}); err != nil {
		return program.MapError(err)
	}
	defer t.ring.Close()
	if t.stream, err = event.NewStream(t.ring, t.size); err != nil {
		return err
	}
	defer t.stream.Close()
	t.lines = render.Lines{JSON: t.output == "json", Color: colored(t.stdout), Boot: event.Boot()}
	if err := t.begin(); err != nil {
		return err
	}
	if err := t.watch(ctx, t); err != nil {
		return err
	}
	if err := t.detach(); err != nil {
		return err
	}
	if t.shown < t.count {
		if err := t.drain(); err != nil {
			return err
		}
	}
	return t.report(true)
}

func (t *trace) size(id uint32) int {
	if int(id) >= len(t.sizes) {
		return 0
	}
	return t.sizes[id]
}

func (t *trace) section(p *program.Probe, id uint32) (*program.Section, error) {
	tr, err := program.NewTrace(p, t.filter, t.show, t.textSize, t.verbose)
	if err != nil {
		return nil, err
	}
	section, err := tr.Section(t.env, t.ring, id)
	if err != nil {
		return nil, err
	}
	source := &render.Source{Provider: p.Provider, Probe: p.Name, Items: tr.Items}
	t.sources, t.sizes = append(t.sources, source), append(t.sizes, tr.Size)
	t.lines.Known(source)
	return section, nil
}

// FDs implements engine.Consumer.
func (t *trace) FDs() []int { return []int{t.stream.FD()} }

// Tick shows the next events.
func (t *trace) Tick() (next time.Duration, more bool, err error) {
	events, err := t.stream.Read(0, false)
	if err != nil {
		return 0, false, err
	}
	if err := t.print(events); err != nil {
		return 0, false, err
	}
	if next = engine.Rest; t.stream.Waiting() {
		next = event.Slack
	}
	return next, t.shown < t.count, t.report(false)
}

// drain shows what was written before the detachment.
func (t *trace) drain() error {
	for {
		events, err := t.stream.Read(0, true)
		if err != nil || len(events) == 0 {
			return err
		}
		if err := t.print(events); err != nil {
			return err
		}
	}
}

func (t *trace) print(events []*event.Event) error {
	for _, e := range events {
		if t.shown == t.count {
			break
		}
		t.lines.Event(t.sources[e.ID], e)
		t.shown++
		if t.lines.Size() > 64<<10 {
			if err := t.lines.Flush(t.stdout); err != nil {
				return err
			}
		}
	}
	return t.lines.Flush(t.stdout)
}

// report says how many events were lost since it last did.
func (t *trace) report(last bool) error {
	stats, err := t.env.ReadStats()
	if err != nil {
		return err
	}
	if lost := stats.Lost - t.lost; lost > 0 {
		t.lost = stats.Lost
		t.warn("%d events were lost, because they came faster than they could be shown", lost)
	}
	if last {
		t.unevaluated(stats)
	}
	return nil
}

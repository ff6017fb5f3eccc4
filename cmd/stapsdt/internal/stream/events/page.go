package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// reorderDelay exceeds the time by which a program delays an event while it sends
	// others.
	reorderDelay = 250 * time.Millisecond
	// countsPatience is the time for which the run waits at its end for the program's counts, which
	// arrive every second.
	countsPatience = 2 * time.Second
	// maxPending is more than the number of events that an honest program sends in reorderDelay.
	maxPending = 1000
)

// tooMany is the reason for events that a program drops.
var tooMany = fmt.Sprintf("the program sends at most %d per second, and drops what the connection is too slow for", remote.MaxRate)

// page is a Source: the events of a program that sends them itself with package debugprobe.
type page struct {
	*replay.Reader // selects the events, and has no recordings
	to             *console.Console
	config         *query.Config
	show           *Show
	address        *remote.Address
	stream         *remote.Stream
	cancel         context.CancelFunc // cancels the stream
	program        *replay.File
	probes         []*recording.Probe // the selected probes, completed if ends does that
	sent           []*recording.Probe // the probes whose events the program sends
	filters        []*replay.Filter   // the filters of sent, with the same indexes
	ends           *paired.Ends
	pending        []pendingEvent
	delay          time.Duration // how long an event waits for earlier ones
	lag            time.Duration // the minimum delay between the fire and the arrival of an event
	filtered       bool          // the program evaluates the condition
	event          recording.Event
	counts         remote.Counts
	ended          string // why the program ended the stream
	gone           error  // the error, if the stream broke off early
}

// pendingEvent is an event that waits for earlier ones.
type pendingEvent struct {
	*remote.Event
	since time.Time
}

// openPage opens the stream of the program at an address.
func openPage(to *console.Console, config *query.Config, o *Options) (p *page, err error) {
	if config.Given() || config.Single || config.Via != "" || config.Budget > 0 || config.Await ||
		len(o.From.Paths) > 0 {
		return nil, query.Usagef("an address cannot be combined with -p, -a, --via, --wait, --budget or --from")
	}
	if err := config.CheckDuration(); err != nil {
		return nil, err
	}
	p = &page{to: to, config: config, show: o.Show, delay: reorderDelay, lag: math.MaxInt64}
	if p.address, err = remote.ParseAddress(o.From.Address); err != nil {
		return nil, query.Usagef("%w", err)
	}
	for _, one := range config.Specs {
		if spec.IsAddress(one.String()) {
			return nil, query.Usagef("only one program's events can be shown at a time: give one address")
		}
		if one.Functions {
			return nil, query.Usagef("%v selects functions, but a program at an address shows only its own probes", one)
		}
	}
	if p.Reader, err = replay.New(config.Specs, config.Where, o.Needs.Unfit); err != nil {
		return nil, err
	}
	p.Pairing = o.Needs.Pairing
	p.ends = paired.New(p.Reader)
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	client := remote.NewClient(p.address)
	listing, err := client.Probes(ctx)
	if err != nil {
		return nil, err
	}
	p.program = replay.NewFile(
		&replay.Process{PID: listing.PID, Executable: listing.Program, Comm: listing.Program},
	)
	if err := p.choose(listing); err != nil {
		return nil, err
	}
	if err := o.Needs.Check(p.probes); err != nil {
		return nil, err
	}
	p.Begin(to)
	p.cancel = cancel
	p.stream, err = client.Watch(ctx, p.query())
	return p, err
}

// choose finds the selected probes.
func (p *page) choose(listing *remote.Listing) error {
	var all []*recording.Probe
	for _, provider := range listing.Providers {
		for i := range provider.Probes {
			all = append(all, describe(&provider.Probes[i]))
		}
	}
	for _, probe := range all {
		f := p.NewFilter(probe, all)
		if f.Selected {
			p.probes = append(p.probes, f.Probe)
		}
		if f.Selected || p.Paired(probe) != nil {
			p.sent, p.filters = append(p.sent, probe), append(p.filters, f)
		}
	}
	if len(p.probes) > 0 {
		p.to.WarnMissing(p.config, "the program has no", replay.Names(all))
		return nil
	}
	if err := p.Unfit(); err != nil {
		return query.Usagef("%w", err)
	}
	return fmt.Errorf("%w: the program at %s has none that matches%s", query.ErrNothing, p.address, p.Nearest(all))
}

// describe returns the probe in the form of a recorded one.
func describe(one *remote.Probe) *recording.Probe {
	probe := &recording.Probe{
		Provider: one.Provider, Name: one.Name, NoThread: true, NoGoroutine: true,
	}
	for _, a := range one.Args[:min(len(one.Args), recording.MaxArgs)] {
		arg := recording.Arg{Name: a.Name, Kind: kind.Uint64, Type: 8} // of a later version
		if k, typ, ok := kind.Received(a.Type); ok {
			arg.Kind, arg.Type = k, typ
		}
		probe.Args = append(probe.Args, arg)
	}
	return probe
}

func (p *page) Probes() []*recording.Probe { return p.probes }

func (p *page) Announce() {
	if p.to.Announces(p.config.Verbose) {
		p.to.Warn("%s", console.Announcement(len(p.probes), 1, 0, p.config.Duration))
	}
}

func (p *page) Until() time.Time { return time.Now().Add(-p.delay) }

func (p *page) Lost() uint64 { return p.counts.Dropped }

func (p *page) Losses() replay.Losses { return replay.Losses{Lost: p.Lost()} }

func (p *page) Close() {
	if p.stream != nil {
		p.stream.Close()
	}
	p.cancel()
}

func (p *page) Report(consequence string, reported uint64) error {
	WarnLost(p.to, p.Lost()-reported, tooMany, consequence)
	if faults := p.counts.Faults + p.Faults; faults > 0 {
		p.to.Warn("%d events are not included, because an expression could not be evaluated: a division by 0, or a number that is not finite", faults)
	}
	p.ends.Report(p.to)
	if p.ended == "time" {
		p.to.Warn("the program has ended the stream after %d minutes", remote.MaxSeconds/60)
	}
	if p.gone != nil {
		return fmt.Errorf("the program at %s has gone away: %w", p.address, p.gone)
	}
	return nil
}

// message is a message from the program, or the error that ended the stream.
type message struct {
	*remote.Message
	err error
}

func (p *page) Run(ctx context.Context, c Consumer) error {
	ctx, cancel := p.config.WithDuration(ctx)
	defer cancel()
	for _, probe := range p.probes {
		c.Know(probe)
	}
	messages, done := make(chan message), make(chan struct{})
	defer close(done)
	go func() {
		for {
			m, err := p.stream.Next()
			select {
			case messages <- message{m, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	d := &Delivery{Consumer: c, Show: p.show, Ends: p.ends}
	err := p.follow(ctx, d, messages)
	if err == nil {
		p.delay = 0
		err = p.deliver(d, 0)
	}
	if errors.Is(err, replay.ErrEnough) {
		err, p.gone = nil, nil
	}
	if err == nil {
		_, _, err = c.Tick()
	}
	return err
}

// follow takes the messages until the consumer needs no more events, the program is gone, or ctx is
// done and the counts have come.
func (p *page) follow(ctx context.Context, d *Delivery, messages <-chan message) error {
	ticker := time.NewTicker(reorderDelay / 4)
	defer ticker.Stop()
	done := ctx.Done()
	var late <-chan time.Time
	for p.ended == "" {
		select {
		case <-done:
			done, late = nil, time.After(countsPatience)
		case <-late:
			return nil
		case m := <-messages:
			if m.err != nil {
				if late == nil {
					p.gone = m.err
				}
				return nil
			}
			if m.Message.Event == nil {
				p.count(m.Counts)
				if p.ended = m.End; late != nil {
					return nil
				}
				continue
			}
			e := pendingEvent{m.Message.Event, time.Now()}
			p.lag = min(p.lag, e.since.Sub(e.Time))
			if p.pending = append(p.pending, e); len(p.pending) < maxPending {
				continue
			}
			if err := p.deliver(d, 0); err != nil {
				return err
			}
		case <-ticker.C:
			if err := p.deliver(d, p.delay); err != nil {
				return err
			}
			if _, more, err := d.Tick(); err != nil || !more {
				return err
			}
		}
	}
	if p.ended == "shutdown" {
		p.gone = fmt.Errorf("%w: it is shutting down", remote.ErrGone)
	}
	return nil
}

// now returns the time by the clock of the program, which may be another machine's.
func (p *page) now() time.Duration { return time.Duration(time.Now().Add(-p.lag).UnixNano()) }

// count records the counts of the program, which only rise.
func (p *page) count(c *remote.Counts) {
	if c.Dropped > p.counts.Dropped && p.lag != math.MaxInt64 {
		p.program.Missed(p.now())
	}
	p.counts.Dropped, p.counts.Faults = max(p.counts.Dropped, c.Dropped), max(
		p.counts.Faults, c.Faults,
	)
}

// deliver delivers the events that have waited long enough to be in order.
func (p *page) deliver(d *Delivery, delay time.Duration) error {
	slices.SortStableFunc(p.pending, func(a, b pendingEvent) int { return a.Time.Compare(b.Time) })
	n := 0
	defer func() {
		if p.pending = slices.Delete(p.pending, 0, n); p.lag != math.MaxInt64 {
			p.program.Passed(max(p.program.Last(), p.now()-delay))
		}
	}()
	for n < len(p.pending) && time.Since(p.pending[n].since) >= delay {
		e := p.pending[n].Event
		n++
		i := p.find(e)
		if i < 0 {
			continue // the probe is not selected, or was defined later
		}
		at := recording.Nanoseconds(e.Time)
		p.event.Reset(p.sent[i], &recording.Event{
			Number: uint32(i), Monotonic: time.Duration(at), Realtime: at,
			PID: e.PID, Executable: p.program.Process.Executable,
		})
		for k, v := range e.Args {
			setSent(&p.event, k, v)
		}
		p.program.Passed(p.event.Monotonic)
		if !p.filtered && !p.filters[i].Takes(&p.event) {
			continue
		}
		if err := d.Event(&p.event, p.program); err != nil {
			return err
		}
	}
	return nil
}

// find returns the index of an event's probe, or -1. Several providers of the same name may have
// probes of the same name.
func (p *page) find(e *remote.Event) int {
	return slices.IndexFunc(p.sent, func(one *recording.Probe) bool {
		return one.Name == e.Probe && one.Provider == e.Provider &&
			slices.EqualFunc(
				one.Args,
				e.Args,
				func(a recording.Arg, v remote.Value) bool { return a.Name == v.Name },
			)
	})
}

// setSent sets the i-th argument of an event to a value that a program has sent.
func setSent(e *recording.Event, i int, sent remote.Value) {
	text, _ := sent.V.(string)
	switch v := sent.V.(type) {
	case json.Number:
		text = string(v)
	case bool:
		text = strconv.FormatBool(v)
	}
	if sent.Cut {
		e.Cut |= 1 << i
	}
	a := &e.Probe.Args[i]
	row := a.Kind.Row()
	if row.Class == kind.Text {
		e.SetText(i, []byte(text))
		return
	}
	value := expr.WordValue(row.Class, kind.Parse(row.Class, row.Unit, text))
	e.Set(i, evaluate.Bits(expr.TypeOf(a.Kind, a.Type), value))
}

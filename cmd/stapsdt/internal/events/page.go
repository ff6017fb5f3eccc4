//go:build linux

package events

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// reorderDelay is longer than an event may wait in the program while others are sent.
	reorderDelay = 250 * time.Millisecond
	// countsPatience is how long the end waits for the program's counts, which it sends every second.
	countsPatience = 2 * time.Second
)

// tooMany is why a program drops events.
var tooMany = fmt.Sprintf("the program sends at most %d per second, and drops what the connection is too slow for", remote.MaxRate)

// page delivers the events of a program that sends them itself, by package debugprobe.
type page struct {
	*replay.Source // decides which events are selected, and has none
	to             *console.Console
	config         *run.Config
	show           *Show
	address        *remote.Address
	stream         *remote.Stream
	cancel         context.CancelFunc // of the stream
	program        *replay.File
	probes         []*recording.Probe // those that are selected
	filters        []*replay.Filter   // of the probes
	pending        []pendingEvent
	event          recording.Event
	counts         remote.Counts
	ended          string // why the program has ended the stream
}

// pendingEvent is an event that waits for those before it.
type pendingEvent struct {
	*remote.Event
	since time.Time
}

// openPage opens the stream of the program at an address.
func openPage(to *console.Console, config *run.Config, o *Options) (p *page, err error) {
	if config.Given() || config.Single || config.Via != "" || config.Budget > 0 || config.Await || len(o.From.Paths) > 0 {
		return nil, console.Usagef("-p, -a, --via, --wait, --budget and --from are not for a program that sends its events itself, at http://…")
	}
	if err := config.CheckDuration(); err != nil {
		return nil, err
	}
	p = &page{to: to, config: config, show: o.Show}
	if p.address, err = remote.ParseAddress(o.From.Address); err != nil {
		return nil, console.Usagef("%w", err)
	}
	specs := append(config.Specs[:len(config.Specs):len(config.Specs)], o.Needs.Others...)
	for _, text := range specs {
		if one, err := spec.Parse(text); err == nil && one.Functions {
			return nil, console.Usagef("%v selects functions, but a program at an address shows only its own probes", one)
		}
	}
	if p.Source, err = replay.New(specs, config.Where, o.Needs.Unfit); err != nil {
		return nil, err
	}
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
	p.program = replay.NewFile(&replay.Process{PID: listing.PID, Executable: listing.Program, Comm: listing.Program})
	if err := p.choose(listing); err != nil {
		return nil, err
	}
	for _, probe := range p.probes {
		if o.Needs.Check == nil {
			break
		}
		if err := o.Needs.Check(probe); err != nil {
			return nil, err
		}
	}
	if o.Needs.All != nil {
		if err := o.Needs.All(p.probes); err != nil {
			return nil, err
		}
	}
	p.Begin(to)
	p.cancel = cancel
	p.stream, err = client.Watch(ctx, p.query())
	return p, err
}

// choose finds the probes that are selected.
func (p *page) choose(listing *remote.Listing) error {
	every := func(yield func(provider, probe string) bool) {
		for i := range listing.Providers {
			for _, one := range listing.Providers[i].Probes {
				if !yield(one.Provider, one.Name) {
					return
				}
			}
		}
	}
	for i := range listing.Providers {
		for j := range listing.Providers[i].Probes {
			probe := describe(&listing.Providers[i].Probes[j])
			if f := p.NewFilter(probe); f.Selected {
				p.probes, p.filters = append(p.probes, probe), append(p.filters, f)
			}
		}
	}
	if len(p.probes) > 0 {
		return nil
	}
	if err := p.Unfit(); err != nil {
		return console.Usagef("%w", err)
	}
	return fmt.Errorf("%w: the program at %s has none that matches%s", probes.ErrNothing, p.address, p.Nearest(every))
}

// describe returns the probe as a recording would have it.
func describe(one *remote.Probe) *recording.Probe {
	probe := &recording.Probe{Provider: one.Provider, Name: one.Name, NoThread: true, NoGoroutine: true}
	for _, a := range one.Args[:min(len(one.Args), recording.MaxArgs)] {
		arg := ArgOf(&layout.Item{Name: a.Name, Type: remote.TypeOf(a.Type)})
		if a.Type == "uintptr" {
			arg.Kind = recording.Pointer
		}
		probe.Args = append(probe.Args, arg)
	}
	return probe
}

// query asks for the events of the provider and of the probe if only one is selected, which the program then filters. It sends a limited number
// of events a second.
func (p *page) query() url.Values {
	q := url.Values{"rate": {strconv.Itoa(remote.MaxRate)}, "seconds": {strconv.Itoa(remote.MaxSeconds)}}
	one := func(name string, of func(*recording.Probe) string) bool {
		first := of(p.probes[0])
		if slices.ContainsFunc(p.probes, func(other *recording.Probe) bool { return of(other) != first }) {
			return false
		}
		q.Set(name, first)
		return true
	}
	if one("provider", func(p *recording.Probe) string { return p.Provider }) && one("probe", func(p *recording.Probe) string { return p.Name }) &&
		p.config.Where != "" && len(p.config.Where) <= remote.MaxFilter {
		q.Set("filter", p.config.Where)
	}
	return q
}

// Probes implements Source.
func (p *page) Probes() []*recording.Probe { return p.probes }

// Announce implements Source.
func (p *page) Announce() {
	if p.config.Announces(p.to) {
		p.to.Warn("%s", run.Announcement(len(p.probes), 1, 0, p.config.Duration))
	}
}

// Clock implements Source.
func (p *page) Clock(e *recording.Event) time.Duration { return e.Monotonic }

// Lost implements Source.
func (p *page) Lost() uint64 { return p.counts.Dropped }

// Losses implements Source.
func (p *page) Losses() replay.Losses { return replay.Losses{Lost: p.Lost()} }

// Close implements Source.
func (p *page) Close() {
	if p.stream != nil {
		p.stream.Close()
	}
	p.cancel()
}

// Report implements Source.
func (p *page) Report(consequence string, reported uint64) {
	warnLost(p.to, p.Lost()-reported, tooMany, consequence)
	if p.counts.Faults > 0 {
		p.to.Warn("%d events are not included, because an expression could not be evaluated: a division by 0, or a number that is not finite", p.counts.Faults)
	}
	if p.ended == "time" {
		p.to.Warn("the program has ended the stream after %d minutes", remote.MaxSeconds/60)
	}
}

// message is one that the program has sent, or the error that has ended the stream.
type message struct {
	*remote.Message
	err error
}

// Run implements Source.
func (p *page) Run(ctx context.Context, c Consumer) error {
	if p.config.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.config.Duration)
		defer cancel()
	}
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
	d := &delivery{Consumer: c, show: p.show}
	gone, err := p.follow(ctx, d, messages)
	if err == nil {
		err = p.deliver(d, time.Duration(0))
	}
	if errors.Is(err, live.ErrEnough) {
		err = nil
	}
	if err == nil {
		_, _, err = c.Tick()
	}
	if err == nil && gone != nil {
		err = fmt.Errorf("the program at %s has gone away: %w", p.address, gone)
	}
	return err
}

// follow takes the messages until ctx is done and the counts have come, the consumer has enough, or the program is gone.
func (p *page) follow(ctx context.Context, d *delivery, messages <-chan message) (gone, err error) {
	ticker := time.NewTicker(reorderDelay / 4)
	defer ticker.Stop()
	done := ctx.Done()
	var late <-chan time.Time
	for p.ended == "" {
		select {
		case <-done:
			done, late = nil, time.After(countsPatience)
		case <-late:
			return nil, nil
		case m := <-messages:
			switch {
			case m.err != nil && late != nil:
				return nil, nil
			case m.err != nil:
				return m.err, nil
			case m.Message.Event != nil:
				p.pending = append(p.pending, pendingEvent{m.Message.Event, time.Now()})
				continue
			}
			if p.counts, p.ended = *m.Counts, m.End; late != nil {
				return nil, nil
			}
		case <-ticker.C:
			if err := p.deliver(d, reorderDelay); err != nil {
				return nil, err
			}
			if _, more, err := d.Tick(); err != nil || !more {
				return nil, err
			}
		}
	}
	if p.ended == "shutdown" {
		return fmt.Errorf("%w: it is shutting down", remote.ErrGone), nil
	}
	return nil, nil
}

// deliver delivers the events that have waited long enough for their place in the order.
func (p *page) deliver(d *delivery, delay time.Duration) error {
	slices.SortStableFunc(p.pending, func(a, b pendingEvent) int { return a.Time.Compare(b.Time) })
	n := 0
	defer func() { p.pending = slices.Delete(p.pending, 0, n) }()
	for n < len(p.pending) && time.Since(p.pending[n].since) >= delay {
		e := p.pending[n].Event
		n++
		i := slices.IndexFunc(p.probes, func(probe *recording.Probe) bool { return probe.Provider == e.Provider && probe.Name == e.Probe })
		if i < 0 {
			continue // not selected, or defined later
		}
		p.event = recording.Event{
			Number: uint32(i), Monotonic: time.Duration(e.Time.UnixNano()), Realtime: e.Time.UnixNano(), PID: e.PID, Executable: p.program.Process.Executable,
		}
		if err := p.event.Decode(p.probes[i], body(p.probes[i], e.Args)); err != nil {
			return err
		}
		p.program.Passed(p.event.Monotonic)
		if !p.filters[i].Matches(&p.event) {
			continue
		}
		if err := d.Event(&p.event, p.program); err != nil {
			return err
		}
	}
	return nil
}

// body returns the body of the record that an event would have. An argument that was not sent is 0, or "".
func body(probe *recording.Probe, args []remote.Value) (words []byte) {
	var texts []byte
	for i, a := range probe.Args {
		word := uint64(0)
		var v remote.Value
		if i < len(args) {
			v = args[i]
		}
		text, isText := v.V.(string)
		switch {
		case a.Kind == recording.String:
			if v.Cut {
				text += "…"
			}
			word, texts = uint64(len(text)), appendText(texts, []byte(text))
		case a.Kind == recording.Float64:
			f, _ := strconv.ParseFloat(strings.TrimPrefix(fmt.Sprint(v.V), "+"), 64)
			if word = math.Float64bits(f); a.Type == recording.TypeFloat32 {
				word = uint64(math.Float32bits(float32(f)))
			}
		case isText: // an address
			word, _ = strconv.ParseUint(text, 0, 64)
		case a.Kind == recording.Bool && v.V == true:
			word = 1
		default:
			word = integer(v.V)
		}
		words = binary.LittleEndian.AppendUint64(words, word)
	}
	return append(words, texts...)
}

// integer returns a number of JSON.
func integer(v any) uint64 {
	n, _ := v.(json.Number)
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return uint64(i)
	}
	u, _ := strconv.ParseUint(string(n), 10, 64)
	return u
}

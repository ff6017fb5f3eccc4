//go:build linux

package trace

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/remote"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// remoteTrace is a trace by a program that shows its probes itself.
type remoteTrace struct {
	*console.Console
	config  *run.Config
	options *Options
	lines   render.Lines
	shown   uint64
	lost    uint64 // that were reported

	address *remote.Address
	client  *remote.Client
	listing *remote.Listing
	types   map[string]map[string]string // of arguments, by PROVIDER:PROBE and by their names
	queries []url.Values
	unfit   probes.Unfit
	fitting int // probes that are not unfit

	messages chan reply
	counts   []remote.Counts // of the stream of each query
	before   remote.Counts   // of streams that have ended
	ending   bool            // whether nothing is waited for but the counts
	done     map[int]bool    // queries of which nothing will come
	pending  []heldEvent
}

// reply is what the stream of a query has sent, or that there is a new one.
type reply struct {
	query   int
	message *remote.Message
	gap     time.Duration // how long there was no stream
	err     error
}

// heldEvent is an event that waits for those before it.
type heldEvent struct {
	*remote.Event
	since time.Time
}

const (
	// reorderDelay is longer than an event may wait in the program while others are sent.
	reorderDelay = 250 * time.Millisecond
	// countsEvery is how often the program sends its counts, and some time more.
	countsEvery = 2 * time.Second
)

// runRemote traces by the handler at an address.
func runRemote(ctx context.Context, to *console.Console, config *run.Config, o *Options) (err error) {
	if config.Given() || len(o.Show) > 0 || o.Verbose || config.Single {
		return console.Usagef("-p, -a, --show and -v are for traces by the kernel, and %s is traced by the program", "http://…")
	}
	w := &remoteTrace{Console: to, config: config, options: o, messages: make(chan reply), done: map[int]bool{}}
	if w.address, err = remote.ParseAddress(config.Specs[0]); err != nil {
		return console.Usagef("%w", err)
	}
	chosen, err := parseRemoteSpecs(config.Specs[1:])
	if err != nil {
		return err
	}
	if config.Duration < 0 {
		return console.Usagef("the duration %v is negative", config.Duration)
	}
	// Streams go on after an interrupt, until their counts have come.
	streams, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	opened := context.AfterFunc(ctx, func() { time.AfterFunc(countsEvery, stop) })
	if err := w.open(streams, chosen); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	opened()
	if config.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.Duration)
		defer cancel()
	}
	gone := w.run(ctx)
	if err := w.print(true); err != nil {
		return err
	}
	w.report(true)
	if gone != nil {
		return fmt.Errorf("the program at %s has gone away: %w", w.address, gone)
	}
	return nil
}

func parseRemoteSpecs(texts []string) (specs []target.Spec, err error) {
	if len(texts) == 0 {
		texts = []string{"*:*"}
	}
	for _, text := range texts {
		spec, err := target.ParseSpec(text)
		if err != nil {
			return nil, console.Usagef("%w", err)
		}
		if spec.Functions {
			return nil, console.Usagef("%q selects functions, but a program at an address shows only its own probes", text)
		}
		if spec.File != "" {
			return nil, console.Usagef("%q has a FILE, but a program at an address shows only its own probes", text)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// open chooses the probes and opens the streams.
func (w *remoteTrace) open(ctx context.Context, specs []target.Spec) (err error) {
	w.client = remote.NewClient(w.address)
	if w.listing, err = w.client.Probes(ctx); err != nil {
		return err
	}
	w.lines = render.Lines{JSON: w.options.JSON, Color: console.Colored(w.Out)}
	if err := w.choose(specs); err != nil {
		return err
	}
	w.counts = make([]remote.Counts, len(w.queries))
	var all []*remote.Stream
	for _, query := range w.queries {
		s, err := w.client.Watch(ctx, query)
		if err != nil {
			return err // and the streams end with the context
		}
		all = append(all, s)
	}
	for i, s := range all {
		go w.follow(ctx, i, s)
	}
	return nil
}

// choice is what is chosen of a provider, and its other probes.
type choice struct {
	provider      string
	chosen, other []string
}

// choices returns the providers of which specs choose probes. It reports whether the program has
// other probes, and whether arguments hide the names "provider" and "probe" from a filter.
func (w *remoteTrace) choices(specs []target.Spec) (groups []*choice, others, hidden bool) {
	w.types = map[string]map[string]string{}
	for _, p := range w.listing.Providers {
		i := slices.IndexFunc(groups, func(g *choice) bool { return g.provider == p.Name })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &choice{provider: p.Name})
		}
		g := groups[i]
		for _, probe := range p.Probes {
			types := map[string]string{}
			for _, a := range probe.Args {
				types[a.Name] = a.Type
				hidden = hidden || a.Name == "provider" || a.Name == "probe"
			}
			if !slices.ContainsFunc(specs, func(s target.Spec) bool { return s.Match(p.Name, probe.Name) }) {
				g.other, others = append(g.other, probe.Name), true
				continue
			}
			w.types[p.Name+":"+probe.Name] = types
			w.fits(probe.Args)
			w.lines.Known(&render.Source{Provider: p.Name, Probe: probe.Name})
			if !slices.Contains(g.chosen, probe.Name) {
				g.chosen = append(g.chosen, probe.Name)
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g *choice) bool { return len(g.chosen) == 0 })
	return groups, others, hidden
}

// choose makes the queries for the selected probes, and keeps their number small: the program
// limits its viewers.
func (w *remoteTrace) choose(specs []target.Spec) error {
	groups, others, hidden := w.choices(specs)
	w.leaveOut()
	if len(groups) == 0 {
		return fmt.Errorf("%w: the program at %s has none that matches%s", probes.ErrNothing, w.address, probes.Nearest(specs, func(yield func(provider, probe string) bool) {
			for _, p := range w.listing.Providers {
				for _, probe := range p.Probes {
					if !yield(p.Name, probe.Name) {
						return
					}
				}
			}
		}))
	}
	if !others && len(groups) > 1 {
		w.query("", "", w.config.Where)
		return nil
	}
	var tests []string
	for _, g := range groups {
		var names []string
		for _, name := range g.chosen {
			names = append(names, "probe == "+strconv.Quote(name))
		}
		tests = append(tests, fmt.Sprintf("provider == %q && (%s)", g.provider, strings.Join(names, " || ")))
	}
	byName := strings.Join(tests, " || ")
	if len(w.types) > 1 && others && w.config.Where == "" && !hidden && len(byName) <= remote.MaxFilter {
		provider := ""
		if len(groups) == 1 {
			provider = groups[0].provider
		}
		w.query(provider, "", byName)
		return nil
	}
	for _, g := range groups {
		if len(g.other) == 0 {
			w.query(g.provider, "", w.config.Where)
			continue
		}
		for _, name := range g.chosen {
			w.query(g.provider, name, w.config.Where)
		}
	}
	if n := len(w.queries); n > w.listing.Most {
		return console.Usagef("these probes take %d streams, and the program allows %d: name fewer, or whole providers", n, w.listing.Most)
	}
	return nil
}

// leaveOut says which probes the program will leave out, because they do not have what the condition asks for. If all are, it refuses the
// request.
func (w *remoteTrace) leaveOut() {
	if line := w.unfit.Take(len(w.types)); w.fitting > 0 && line != "" {
		w.Warn("%s", line)
	}
}

// fits notes whether a probe has what the condition asks for.
func (w *remoteTrace) fits(args []struct{ Name, Type string }) {
	vars := []expr.Var{{Name: "pid", Type: expr.Type{Kind: expr.Int, Size: 8}}, {Name: "provider", Type: expr.Type{Kind: expr.String}}, {Name: "probe", Type: expr.Type{Kind: expr.String}}}
	for i, a := range args {
		t := remote.TypeOf(a.Type)
		vars = append(vars, expr.Var{Name: a.Name, Type: t}, expr.Var{Name: fmt.Sprint("arg", i), Type: t})
	}
	if w.config.Where != "" {
		if _, err := expr.ParseFilter(w.config.Where, vars); err != nil {
			w.unfit.Add(err)
			return
		}
	}
	w.fitting++
}

// query adds a query, in which an empty provider or probe is any.
func (w *remoteTrace) query(provider, probe, filter string) {
	q := url.Values{"rate": {strconv.Itoa(remote.MaxRate)}, "seconds": {strconv.Itoa(remote.MaxSeconds)}}
	if w.options.Limit <= 1<<30 {
		q.Set("events", strconv.FormatUint(w.options.Limit, 10))
	}
	for name, value := range map[string]string{"provider": provider, "probe": probe, "filter": filter} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if w.config.Duration > 0 { // the stream lasts longer, so that the end is that of the command
		seconds := math.Ceil((w.config.Duration + countsEvery).Seconds())
		q.Set("seconds", strconv.Itoa(int(min(seconds, remote.MaxSeconds))))
	}
	w.queries = append(w.queries, q)
}

// follow reads a stream, and opens the next when the program ends it for its age.
func (w *remoteTrace) follow(ctx context.Context, i int, s *remote.Stream) {
	defer func() { s.Close() }()
	send := func(r reply) bool {
		r.query = i
		select {
		case w.messages <- r:
			return r.err == nil
		case <-ctx.Done():
			return false
		}
	}
	for {
		m, err := s.Next()
		if !send(reply{message: m, err: err}) {
			return
		}
		if m.End != "time" {
			continue
		}
		begin := time.Now()
		next, err := w.client.Watch(ctx, w.queries[i])
		if err != nil {
			send(reply{err: fmt.Errorf("%w: %w", remote.ErrGone, err)})
			return
		}
		s.Close()
		s = next
		if !send(reply{gap: time.Since(begin)}) {
			return
		}
	}
}

// run shows events until there were enough, or ctx is done and the counts have come. The error
// is that the program has gone away.
func (w *remoteTrace) run(ctx context.Context) error {
	ticker := time.NewTicker(reorderDelay / 4)
	defer ticker.Stop()
	done := ctx.Done()
	var late <-chan time.Time
	for w.shown < w.options.Limit && len(w.done) < len(w.queries) {
		select {
		case <-done:
			done, w.ending, late = nil, true, time.After(countsEvery)
		case <-late:
			return nil
		case r := <-w.messages:
			if err := w.take(r); err != nil {
				return err
			}
		case <-ticker.C:
			if err := w.print(false); err != nil {
				return nil // and again when all is printed
			}
			w.report(false)
		}
	}
	return nil
}

// take takes what a stream has sent.
func (w *remoteTrace) take(r reply) error {
	m := r.message
	switch {
	case r.err != nil && w.ending:
		w.done[r.query] = true
		return nil
	case r.err != nil:
		return r.err
	case m == nil:
		w.Warn("the program ends a stream after %d minutes: there was none for %v, whose events are not included",
			remote.MaxSeconds/60, r.gap.Round(time.Millisecond))
		return nil
	case m.Event != nil:
		w.pending = append(w.pending, heldEvent{m.Event, time.Now()})
		return nil
	}
	w.counts[r.query] = *m.Counts
	if w.ending || m.End == "events" {
		w.done[r.query] = true
	}
	switch {
	case m.End == "shutdown":
		return fmt.Errorf("%w: it is shutting down", remote.ErrGone)
	case m.End != "":
		w.before.Add(*m.Counts)
		w.counts[r.query] = remote.Counts{}
	}
	return nil
}

// print shows the events whose place in the order is certain, or all.
func (w *remoteTrace) print(all bool) error {
	slices.SortStableFunc(w.pending, func(a, b heldEvent) int { return a.Time.Compare(b.Time) })
	n := 0
	for n < len(w.pending) && w.shown < w.options.Limit && (all || time.Since(w.pending[n].since) >= reorderDelay) {
		e := w.pending[n].Event
		w.lines.Remote(&render.RemoteEvent{Event: e, Program: cmp.Or(w.listing.Program, "-"), Types: w.types[e.Provider+":"+e.Probe], TextSize: w.options.TextSize})
		w.shown++
		n++
	}
	w.pending = slices.Delete(w.pending, 0, n)
	return w.lines.Flush(w.Out)
}

// report says how many events were lost since it last did.
func (w *remoteTrace) report(last bool) {
	total := w.before
	for _, c := range w.counts {
		total.Add(c)
	}
	if lost := total.Dropped - w.lost; lost > 0 {
		w.lost = total.Dropped
		w.Warn("%d events were lost, because the program sends at most %d per second, and drops what the connection is too slow for", lost, remote.MaxRate)
	}
	if last && total.Faults > 0 {
		w.Warn("%d events are not included, because an expression could not be evaluated: a division by 0, or a number that is not finite", total.Faults)
	}
}

//go:build linux

package live

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/paired"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// ErrKernel means that a command needs the kernel, which cannot be used here.
var ErrKernel = errors.New("only the kernel can do this")

// kernelError names something that only the kernel can do. It is an ErrKernel.
type kernelError string

func (e kernelError) Error() string        { return string(e) }
func (e kernelError) Is(target error) bool { return target == ErrKernel }

// errThread means that an expression uses the thread that fires.
const errThread = kernelError("tid needs the kernel, because sockets do not have the thread")

// unseenError returns the error for a probe that no socket shows.
func unseenError(probe string) error {
	return kernelError(probe + " is not among the probes that the program shows by its socket: only the kernel sees it")
}

// PartError is the error if no program shows a selected probe, but some of the named processes do
// not listen, although processes that they have forked do.
type PartError struct{ error }

func (e PartError) Unwrap() error { return e.error }

// fitSocket is Unfit for the events of a socket: only the kernel knows the thread that fires.
func fitSocket(n *replay.Needs, p *recording.Probe) error {
	without := *p
	without.NoThread = true
	if err := n.Parse(&without); err == nil {
		return n.Unfit(p)
	} else if n.Parse(p) != nil {
		return query.Usagef("%w", err)
	}
	return errThread
}

// watchNamed begins to watch the processes that the user named. It returns the error of the first
// process that refuses it.
func (f *Feed) watchNamed() error {
	if f.config.All {
		return nil // processes that refuse it are left out
	}
	f.watch()
	return f.await(startPatience, f.add)
}

// OpenAll returns a feed of the events of all listening programs of this user.
func OpenAll(to *console.Console, specs []spec.Choice) (*Feed, error) {
	everywhere := query.Target{All: true}
	return connect(to, &query.Config{Target: everywhere, Specs: specs}, &replay.Needs{})
}

// Open returns a feed of the programs that a configuration selects, and watches those that the user
// has named. alone means that no other source can deliver the events: otherwise it is an error if a
// selected probe is shown by no socket.
func Open(to *console.Console, c *query.Config, n replay.Needs, alone bool) (*Feed, error) {
	n.Where = c.Where
	f, err := connect(to, c, &n)
	if err != nil {
		return nil, err
	}
	unseen := f.unseen()
	err = f.check(&n)
	nothing := errors.Is(err, query.ErrNothing)
	switch {
	case unseen != "" && (nothing || err == nil && !alone):
		err = unseenError(unseen)
	case unseen != "" && err == nil:
		to.Warn("%v", unseenError(unseen))
	case nothing && f.lacksNamed():
		err = PartError{err}
	}
	if err == nil {
		err = f.watchNamed()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	f.warnLacking()
	if f.HasSelected() {
		to.WarnMissing(c, "no process that listens has", replay.Names(f.Known()))
	}
	return f, nil
}

// connect connects to the programs that the configuration names.
func connect(to *console.Console, c *query.Config, n *replay.Needs) (*Feed, error) {
	unfit := func(p *recording.Probe) error { return fitSocket(n, p) }
	reader, err := replay.New(c.Specs, c.Where, unfit)
	if err != nil {
		return nil, err
	}
	reader.Pairing = n.Pairing
	specs := spec.All(c.Specs)
	f, err := newFeed(to, c, reader, patterns(specs))
	if err != nil {
		return nil, err
	}
	if n.Pairing != nil {
		f.paired = patterns(slices.Concat(specs, paired.Starts(specs)))
	}
	if c.All {
		f.connectAll()
		return f, nil
	}
	for _, pid := range c.PIDs {
		if err := f.connectFamily(pid); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// patterns returns patterns that match the probes of the specs. They match other probes too if the
// specs do not fit into a message.
func patterns(specs []spec.Spec) []wire.Pattern {
	var all, providers []wire.Pattern
	for _, spec := range specs {
		one := wire.Pattern{Provider: spec.Provider, Probe: spec.Probe}
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
		one.Probe = "*"
		if !slices.Contains(providers, one) {
			providers = append(providers, one)
		}
	}
	for _, some := range [][]wire.Pattern{all, providers} {
		message := (&wire.Watch{Patterns: some}).Append(nil)
		if len(some) <= wire.MaxPatterns && len(message) <= wire.MaxBody {
			return some
		}
	}
	return []wire.Pattern{{Provider: "*", Probe: "*"}}
}

// check returns an error if the connected programs have no selected probe, or if their events lack
// something that the command needs.
func (f *Feed) check(n *replay.Needs) error {
	all, fit := f.Probes(), false
	var unfit query.Unfit
	for p := range f.answered() {
		for probe, completed := range f.selected(p) {
			if err := fitSocket(n, completed); err == nil {
				fit = true
			} else {
				unfit.Add(f.Explain(err, probe, p.Probes))
			}
		}
	}
	switch {
	case f.config.All && len(all) == 0:
		return nil // programs may come later
	case len(all) == 0:
		specs := spec.Join(f.config.Specs, " or ")
		return fmt.Errorf("%w: the process has no %s%s", query.ErrNothing, specs, f.Nearest(f.Known()))
	case !fit:
		return unfit.Err()
	}
	return n.Check(all)
}

// lacksNamed reports whether a process that the user named does not listen, but only some that it
// has forked.
func (f *Feed) lacksNamed() bool {
	for pid := range f.named {
		listens := false
		for p := range f.answered() {
			listens = listens || p.Process.PID == pid
		}
		if !listens {
			return true
		}
	}
	return false
}

// Known returns the probes of the programs, selected or not.
func (f *Feed) Known() (all []*recording.Probe) {
	for p := range f.answered() {
		all = append(all, p.Probes...)
	}
	return all
}

// Probes returns the selected probes of the programs, completed if a Pairing does that.
func (f *Feed) Probes() (all []*recording.Probe) {
	for p := range f.answered() {
		for _, completed := range f.selected(p) {
			all = append(all, completed)
		}
	}
	return all
}

// unseen returns a selected probe that is in a file of a process but is not shown by its socket,
// such as a probe of a C library, or of a process that does not listen while others do. It returns
// "" if there is none.
func (f *Feed) unseen() string {
	if f.config.All {
		return ""
	}
	type probe struct {
		pid            int
		provider, name string
	}
	shown := map[probe]bool{}
	for program := range f.answered() {
		for _, p := range program.Probes {
			shown[probe{program.PID, p.Provider, p.Name}] = true
		}
	}
	finder := target.NewFinder()
	defer finder.Close()
	found, err := probes.LookAt(&f.config.Target, finder)
	if err != nil {
		return ""
	}
	for _, file := range found.Files {
		for i := range file.Probes {
			site := &file.Probes[i]
			if !f.Selects(site.Provider, site.Name) {
				continue
			}
			for _, u := range found.Uses[file] {
				if !shown[probe{u.PID, site.Provider, site.Name}] {
					return site.Provider + ":" + site.Name
				}
			}
		}
	}
	return ""
}

// about returns the kernel's data about a process.
func about(p *socket.Process) *replay.Process {
	if p.Elsewhere {
		return &replay.Process{PID: p.PID}
	}
	return NewProcess(p.PID)
}

func say(to *console.Console, c *query.Config, text string) {
	if c.Verbose {
		to.Warn("%s", text)
	}
}

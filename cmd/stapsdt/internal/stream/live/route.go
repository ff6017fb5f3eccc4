//go:build linux

package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrKernel means that a command needs the kernel, which cannot be used here.
var ErrKernel = errors.New("only the kernel can do this")

// lacks reports whether an error of the kernel's route means that the kernel delivers no events here: rights are
// missing, or there is no BPF, as in gVisor and with many seccomp filters.
func lacks(err error) bool {
	return errors.As(err, new(*rights.Error)) || errors.Is(err, unix.ENOSYS) || errors.Is(err, ebpf.ErrNotSupported)
}

// Replaces reports whether sockets replace the kernel, after an error of the kernel's route, for a command that selects all processes or pods.
// They do not if this process has some capabilities and lacks others, because then it is expected to see all processes of the machine.
func Replaces(err error) bool {
	return lacks(err) && (rights.None() || !errors.As(err, new(*rights.Error)))
}

// Refuse returns the error of a run that uses the kernel. It adds the reason if the run needs the kernel, but cannot
// use it.
func Refuse(err error, what string) error {
	if what != "" && lacks(err) {
		return fmt.Errorf("%w (%s), but %w", ErrKernel, what, err)
	}
	return err
}

// kernelError names something that only the kernel can do. It is an ErrKernel.
type kernelError string

func (e kernelError) Error() string        { return string(e) }
func (e kernelError) Is(target error) bool { return target == ErrKernel }

// errThread means that an expression uses the thread that fires.
const errThread = kernelError("tid needs the kernel, because sockets do not have the thread")

// unseen returns the error for a probe that no socket shows.
func unseen(probe string) error {
	return kernelError(probe + " is not among the probes that the program shows by its socket: only the kernel sees it")
}

// fitSocket is Unfit for the events of a socket: only the kernel knows the thread that fires.
func fitSocket(n *replay.Needs, p *recording.Probe) error {
	without := *p
	without.NoThread = true
	if err := n.Parse(&without); err == nil {
		return n.Unfit(p)
	} else if n.Parse(p) != nil {
		return console.Usagef("%w", err)
	}
	return errThread
}

// Route is the source that delivers events: the sockets of programs, or the kernel.
type Route struct {
	// Feed has the events of programs. It is nil if the kernel delivers the events.
	Feed *Feed

	reason string // the reason for using the kernel, or "" if sockets were not requested
}

func (r Route) String() string {
	switch {
	case r.Feed != nil:
		return "the programs' sockets"
	case r.reason != "":
		return "the kernel: " + r.reason
	}
	return "the kernel"
}

// Choose returns the route for the events that the configuration selects. It connects to
// the programs, and begins to watch the processes that the user has named.
func Choose(to *console.Console, c *query.Config, n replay.Needs) (r Route, err error) {
	if err := c.Check(); err != nil {
		return r, err
	}
	if c.Via != query.ViaKernel && c.Given() {
		if r, err = choose(to, c, &n); err != nil {
			return r, err
		}
	}
	say(to, c, fmt.Sprintf("the events come from %v", r))
	return r, nil
}

// byKernel returns the route by the kernel, for a reason.
func byKernel(reason error) (Route, error) { return Route{reason: console.ErrorText(reason)}, nil }

func say(to *console.Console, c *query.Config, text string) {
	if c.Verbose {
		to.Warn("%s", text)
	}
}

func choose(to *console.Console, c *query.Config, n *replay.Needs) (Route, error) {
	if err := query.CheckSpecs(c.Specs); err != nil {
		return Route{}, err
	}
	demanded := c.Via == query.ViaSocket
	if c.Budget > 0 {
		n.Kernel = "--budget"
	}
	if c.Command != nil {
		n.Kernel = "a COMMAND"
	} else if c.Await {
		n.Kernel = "--wait"
	}
	if len(c.DebugFiles) > 0 {
		n.Kernel = "--debug-file"
	}
	for _, text := range c.Specs {
		if spec, err := spec.Parse(text); err == nil && spec.File != "" {
			n.Kernel = "a FILE in a SPEC"
		} else if err == nil && spec.Functions {
			n.Kernel = "a function in a SPEC"
		}
	}
	var refused error // the reason that the kernel cannot be used
	if !demanded {
		refused = kernel()
	}
	switch {
	case n.Kernel != "" && demanded:
		return Route{}, console.Usagef("%s needs the kernel, but --via socket excludes it", n.Kernel)
	case n.Kernel != "":
		return byKernel(errors.New(n.Kernel + " needs it")) // and Refuse explains
	case (c.All || len(c.Pods) > 0) && !demanded && !Replaces(refused):
		// It follows new pods too, or reports the missing rights.
		return byKernel(errors.New("it sees programs that do not listen"))
	}
	// orKernel returns an error of the sockets if the kernel cannot deliver the events instead.
	orKernel := func(err error) (Route, error) {
		if demanded || refused != nil {
			return Route{}, err
		}
		return byKernel(err)
	}
	if len(c.Pods) > 0 {
		now, err := probes.Now(&c.Target)
		if err != nil {
			return Route{}, err
		}
		c.Target = now
	}
	f, err := connect(to, c, n)
	if !demanded && (errors.Is(err, socket.ErrNone) || errors.Is(err, proc.ErrNoProcess)) {
		return byKernel(err)
	}
	if err != nil {
		return orKernel(err)
	}
	other := f.unseen(c)
	if err := f.check(n); err != nil {
		f.Close()
		if errors.Is(err, query.ErrNothing) && other != "" {
			err = unseen(other)
		}
		switch {
		case errors.Is(err, query.ErrNothing) && !demanded && f.lacksNamed() &&
			(refused == nil || errors.As(refused, new(*rights.Error))):
			return byKernel(err) // or the right that is missing is the answer
		case !errors.Is(err, ErrKernel):
		case demanded:
			err = console.Usagef("%w, but --via socket excludes it", err)
		case refused != nil:
			err = fmt.Errorf("%w: %w", err, refused)
		}
		return orKernel(err)
	}
	if other != "" && refused == nil && !demanded {
		f.Close()
		return byKernel(unseen(other))
	} else if other != "" {
		to.Warn("%v", unseen(other))
	}
	if err := f.begin(); err != nil {
		f.Close()
		return orKernel(err)
	}
	return Route{Feed: f}, nil
}

// begin begins to watch the processes that the user named. It returns the error of the first process that refuses it.
func (f *Feed) begin() error {
	if f.config.All {
		return nil // processes that refuse it are left out
	}
	f.watch()
	return f.await(startPatience, f.add)
}

// OpenAll returns a feed of the events of all listening programs of this user.
func OpenAll(to *console.Console, specs []string) (*Feed, error) {
	everywhere := query.Target{All: true}
	return connect(to, &query.Config{Target: everywhere, Specs: specs}, &replay.Needs{})
}

// kernel returns an error if BPF cannot be used here, for example in a sandbox without it.
func kernel() error {
	machine, err := bpf.NewMachine(false)
	if err != nil {
		return err
	}
	env, err := machine.Env()
	if err != nil {
		return err
	}
	return env.Stats.Close()
}

// connect connects to the programs that the configuration names.
func connect(to *console.Console, c *query.Config, n *replay.Needs) (*Feed, error) {
	n.Where = c.Where
	specs := c.AllSpecs()
	unfit := func(p *recording.Probe) error { return fitSocket(n, p) }
	reader, err := replay.New(specs, c.Where, unfit)
	if err != nil {
		return nil, err
	}
	f, err := newFeed(to, c, reader, patterns(specs))
	if err != nil {
		return nil, err
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

// patterns returns patterns that match the probes of the specs. They match other probes too if the specs do not fit into a message.
func patterns(specs []string) []wire.Pattern {
	var all, providers []wire.Pattern
	for _, text := range specs {
		spec, err := spec.Parse(text)
		if err != nil {
			continue
		}
		if one := (wire.Pattern{Provider: spec.Provider, Probe: spec.Probe}); !slices.Contains(all, one) {
			all = append(all, one)
		}
		if one := (wire.Pattern{Provider: spec.Provider, Probe: "*"}); !slices.Contains(providers, one) {
			providers = append(providers, one)
		}
	}
	for _, some := range [][]wire.Pattern{all, providers} {
		if len(some) <= wire.MaxPatterns && len((&wire.Watch{Patterns: some}).Append(nil)) <= wire.MaxBody {
			return some
		}
	}
	return []wire.Pattern{{Provider: "*", Probe: "*"}}
}

// check returns an error if the connected programs have no selected probe, or if their events lack something that the
// command needs.
func (f *Feed) check(n *replay.Needs) error {
	all, fit := f.Probes(), false
	var unfit query.Unfit
	for _, probe := range all {
		if err := fitSocket(n, probe); err == nil {
			fit = true
		} else {
			unfit.Add(err)
		}
	}
	switch {
	case f.config.All && len(all) == 0:
		return nil // programs may come later
	case len(all) == 0:
		specs := strings.Join(f.config.Specs, " or ")
		return fmt.Errorf("%w: the process has no %s%s", query.ErrNothing, specs, f.Nearest(f.known()))
	case !fit:
		return unfit.Err()
	case n.All != nil:
		return n.All(all)
	}
	return nil
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

// known returns the probes of the programs, selected or not.
func (f *Feed) known() (all []*recording.Probe) {
	for p := range f.answered() {
		all = append(all, p.Probes...)
	}
	return all
}

// Probes returns the selected probes of the programs.
func (f *Feed) Probes() []*recording.Probe {
	return slices.DeleteFunc(f.known(), func(p *recording.Probe) bool { return !f.Selects(p.Provider, p.Name) })
}

// unseen returns a selected probe that is in a file of a process but is not shown by its socket,
// such as a probe of a C library, or of a process that does not listen while others do. It returns
// "" if there is none.
func (f *Feed) unseen(c *query.Config) string {
	if c.All {
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
	found, err := probes.LookAt(&c.Target, finder)
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

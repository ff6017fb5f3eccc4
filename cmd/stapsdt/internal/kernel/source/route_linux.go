//go:build linux

package source

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/clock"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// lacks reports whether an error of the kernel's route means that the kernel delivers no events
// here: rights are missing, or there is no BPF, as in gVisor and with many seccomp filters.
func lacks(err error) bool {
	return errors.As(err, new(*rights.Error)) || errors.Is(err, unix.ENOSYS) ||
		errors.Is(err, ebpf.ErrNotSupported)
}

// Replaces reports whether sockets replace the kernel, after an error of the kernel's route, for a
// command that selects all processes or pods. They do not if this process has some capabilities and
// lacks others, because then it is expected to see all processes of the machine.
func Replaces(err error) bool {
	return lacks(err) && (rights.None() || !errors.As(err, new(*rights.Error)))
}

// Refuse returns the error of a run that uses the kernel. It adds the reason if the run needs the
// kernel, but cannot use it.
func Refuse(err error, c *query.Config) error {
	if what := c.OnlyKernel(); what != "" && lacks(err) {
		return fmt.Errorf("%w (%s), but %w", live.ErrKernel, what, err)
	}
	return err
}

// Route is the source of events: a stream, or the kernel.
type Route struct {
	// Stream is nil if the kernel is the source.
	Stream *events.Stream
	// Machine is for a run that uses the kernel. It is nil if it is not loaded yet.
	Machine *bpf.Machine

	name string // for a message
}

// load loads the machine. It returns an error if BPF cannot be used here, for example in a sandbox
// without it.
func (r *Route) load(single bool) error {
	machine, err := bpf.NewMachine(single)
	if err != nil {
		return err
	}
	env, err := machine.Env()
	if err != nil {
		return err
	}
	r.Machine = machine
	return env.Stats.Close()
}

// choose returns the route for the events of processes.
func choose(to *console.Console, c *query.Config, o *events.Options) (r Route, err error) {
	if err := c.Check(); err != nil {
		return r, err
	}
	r.name = "the kernel"
	if c.Via != query.ViaKernel && c.Given() {
		if err := r.prefer(to, c, o); err != nil {
			return r, err
		}
	}
	if c.Verbose {
		to.Warn("the events come from %s", r.name)
	}
	return r, nil
}

// prefer chooses the programs' sockets, if these are enough, or else the kernel, if this may have
// more.
func (r *Route) prefer(to *console.Console, c *query.Config, o *events.Options) error {
	if err := query.CheckSpecs(c.Specs); err != nil {
		return err
	}
	demanded, only := c.Via == query.ViaSocket, c.OnlyKernel()
	var refused error // the reason that the kernel cannot be used
	switch {
	case only != "" && demanded:
		return query.Usagef("%s needs the kernel, but --via socket excludes it", only)
	case only != "":
		r.name += ": " + only + " needs it"
		return nil // and Refuse explains
	case !demanded:
		refused = r.load(c.Single)
	}
	if (c.All || len(c.Pods) > 0) && !demanded && !Replaces(refused) {
		// The kernel also sees later pods. If rights are missing, its error says which.
		r.name += ": it sees programs that do not listen"
		return nil
	}
	stream, err := openFeed(to, c, o, demanded || refused != nil)
	switch {
	case err == nil:
		r.Stream, r.name = stream, "the programs' sockets"
	case !demanded && hasMore(err, refused):
		r.name += ": " + err.Error()
		return nil
	case errors.Is(err, live.ErrKernel) && demanded:
		err = query.Usagef("%w, but --via socket excludes it", err)
	case errors.Is(err, live.ErrKernel):
		err = fmt.Errorf("%w: %w", err, refused)
	}
	return err
}

// hasMore reports whether the kernel may have what the programs' sockets lack because of an error,
// or its refusal is the better answer. refused is that refusal, or nil.
func hasMore(err, refused error) bool {
	return refused == nil || errors.Is(err, socket.ErrNone) || errors.Is(err, proc.ErrNoProcess) ||
		errors.As(err, new(live.PartError)) && errors.As(refused, new(*rights.Error))
}

// open opens the kernel's stream.
func (r Route) open(
	to *console.Console, config *query.Config, o *events.Options,
) (*events.Stream, error) {
	began := clock.Now()
	k, err := openKernel(to, config, o, r.Machine)
	if err != nil {
		return nil, Refuse(err, config)
	}
	k.pasts = newPasts(k, config, o, began)
	return &events.Stream{
		Source: k, Live: true, Pods: k.pods, Target: config.Target, Why: events.TooFast,
		Past: k.pasts.Past,
	}, nil
}

// Pods reports whether this machine runs pods now.
func Pods() bool { return pods.Any() }

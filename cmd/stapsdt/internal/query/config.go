package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// Command is a command that was started for a run. It is held until Release.
type Command interface {
	Release() error
	// FDs returns descriptors that are readable when Loaded has something to return. Loaded returns
	// the PIDs of processes that have loaded probes, and wait until proceed is called. They may be
	// processes that the command has not started.
	FDs() []int
	Loaded() (pids []int, proceed func())
	// Leave lets these processes go on, and makes no other process wait.
	Leave()
	// Ended reports whether it has ended.
	Ended() bool
}

// Config selects the processes and events of a command, and determines when it ends.
type Config struct {
	Target
	// Specs select the probes. Others maps a spec to its alternative.
	Specs  []string
	Others map[string]string
	// Together delays attaching until each spec has a probe.
	Together bool
	// Where is the condition that selects events, or "".
	Where string
	// Duration is the duration of the run, or 0 for a run until Ctrl-C.
	Duration time.Duration
	// Await waits for probes that the named processes and files do not have yet.
	Await bool
	// Command is the command that the user has given, or nil. Its process is the only one of PIDs,
	// and its end ends the run.
	Command Command
	// Single attaches to each site on its own, as before Linux 6.6.
	Single bool
	// Via selects how events are delivered: ViaKernel or ViaSocket, or "" for either.
	Via string
	// Verbose prints whether the kernel or sockets deliver the events.
	Verbose bool
	// Budget is the share of the processes' processor time that the probes may take, or 0 for
	// no limit. If it is exceeded, the most expensive probes are detached, or all of them if
	// Whole is set.
	Budget float64
	Whole  bool
	// Format is the format of the output.
	Format Format
}

// Awaits reports whether the processes may have no selected probe yet.
func (c *Config) Awaits() bool { return c.Await || c.Command != nil }

// The values of Config.Via.
const (
	ViaKernel = "kernel"
	ViaSocket = "socket"
)

// AllSpecs returns the specs and their alternatives.
func (c *Config) AllSpecs() []string {
	return slices.Concat(c.Specs, slices.Sorted(maps.Values(c.Others)))
}

// CheckDuration returns an error if the duration is negative.
func (c *Config) CheckDuration() error {
	if c.Duration < 0 {
		return console.Usagef("the duration %v is negative", c.Duration)
	}
	return nil
}

// CheckSpecs returns an error if there are no specs, which commands about processes need.
func CheckSpecs(specs []string) error {
	if len(specs) == 0 {
		return console.Usagef("no probes: give [FILE:]PROVIDER:PROBE, such as 'myapp:*'")
	}
	return nil
}

// WithDuration returns a context that ends with ctx, or after the duration if there is one.
func (c *Config) WithDuration(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Duration > 0 {
		return context.WithTimeout(ctx, c.Duration)
	}
	return context.WithCancel(ctx)
}

// Announces reports whether the command prints an announcement.
func (c *Config) Announces(to *console.Console) bool {
	return c.Verbose || console.IsTerminal(to.Err)
}

// WarnExited prints that the named processes have exited, which has ended the run.
func (c *Config) WarnExited(to *console.Console) {
	if len(c.PIDs) == 1 {
		to.Warn("process %d has exited", c.PIDs[0])
		return
	}
	to.Warn("processes %s have exited", text.PIDs(c.PIDs))
}

// Announcement returns a line with the number of probes, the number of their processes (or of their
// files if the processes are unknown), and how the command ends.
func Announcement(probes, processes, files int, duration time.Duration) string {
	of := text.Number(files, "file")
	switch {
	case processes == 1:
		of = "1 process"
	case processes > 1:
		of = fmt.Sprintf("%d processes", processes)
	}
	return fmt.Sprintf("%s of %s; %s", text.Number(probes, "probe"), of, End(duration))
}

// End describes how a command ends.
func End(duration time.Duration) string {
	if duration > 0 {
		return fmt.Sprintf("ends after %v or with Ctrl-C", duration)
	}
	return "Ctrl-C ends"
}

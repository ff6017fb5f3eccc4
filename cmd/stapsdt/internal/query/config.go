package query

import (
	"context"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Command is a command that was started for a run. It is held until Release.
type Command interface {
	Release() error
	// FDs returns descriptors that are readable when Loaded has something to return. Loaded returns
	// the PIDs of processes that have loaded probes, and wait until proceed is called. They may be
	// processes that the command has not started. proceed returns those that have not waited.
	FDs() []int
	Loaded() (pids []int, proceed func() (late []int))
	// Leave lets these processes go on, and makes no other process wait.
	Leave()
	// Ended reports whether it has ended.
	Ended() bool
}

// Config selects the processes and events of a command, and determines when it ends.
type Config struct {
	Target
	// Specs select the probes.
	Specs []spec.Choice
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
	// Kernel names anything else that only the kernel can do, such as a variable of an expression,
	// or is "".
	Kernel string
	// Verbose prints whether the kernel or sockets deliver the events.
	Verbose bool
	// Budget is the share of the processes' processor time that the probes may take, or 0 for
	// no limit. If it is exceeded, probes are detached.
	Budget float64
	// Format is the format of the output.
	Format Format
}

// Awaits reports whether the processes may have no selected probe yet.
func (c *Config) Awaits() bool { return c.Await || c.Command != nil }

// OnlyKernel returns the part of the question that only the kernel can answer, or "".
func (c *Config) OnlyKernel() string {
	if c.Kernel != "" {
		return c.Kernel
	}
	for _, spec := range c.Specs {
		switch {
		case spec.File != "":
			return "a FILE in a SPEC"
		case spec.Functions:
			return "a function in a SPEC"
		}
	}
	switch {
	case len(c.DebugFiles) > 0:
		return "--debug-file"
	case len(c.Sources) > 0:
		return "--source"
	case c.Command != nil:
		return "a COMMAND"
	case c.Await:
		return "--wait"
	case c.Budget > 0:
		return "--budget"
	}
	return ""
}

// The values of Config.Via.
const (
	ViaKernel = "kernel"
	ViaSocket = "socket"
)

// CheckDuration returns an error if the duration is negative.
func (c *Config) CheckDuration() error {
	if c.Duration < 0 {
		return Usagef("the duration %v is negative", c.Duration)
	}
	return nil
}

// CheckWhere returns an error if there is a condition whose syntax is wrong.
func (c *Config) CheckWhere() error {
	if c.Where == "" {
		return nil
	}
	return CheckSyntax(c.Where)
}

// CheckSpecs returns an error if there are no specs, which commands about processes need.
func CheckSpecs(specs []spec.Choice) error {
	if len(specs) == 0 {
		return Usagef("no probes: give [FILE:]PROVIDER:PROBE, such as 'myapp:*'")
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

//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/schema"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/tools/clean"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/tools/doctor"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/stack"
	"github.com/go-stapsdt/stapsdt/internal/wire"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/spf13/cobra"
)

// linuxVerbs returns the functions that make the commands that need Linux, by their names.
func linuxVerbs() map[string]func(*console.Console) *cobra.Command {
	return map[string]func(*console.Console) *cobra.Command{
		"record": recordCommand, "stack": stackCommand, "script": scriptCommand,
		"export": exportCommand, "doctor": doctorCommand, "clean": cleanCommand,
		inpod.Verb: inpodCommand,
	}
}

// linuxObjects returns the kinds of objects that need Linux.
func linuxObjects() []schema.Kind {
	return []schema.Kind{
		schema.Of("detached", "probes that --budget detached", "trace count hist latency top tree stack", run.JSONDetached{}),
		schema.Of("stack", "events of a probe from a stack", "stack", stack.JSONRow{}),
		schema.Of("finding", "a finding", "doctor", doctor.Finding{}),
		schema.Of("file", "a file", "clean", clean.File{}),
	}
}

// processCalled returns the process that has a name, and isNoProcess reports whether an error means
// that no process has it.
func processCalled(name string) (int, error) { return proc.Called(name) }

// processesLike returns the processes whose names match a pattern.
func processesLike(pattern string) ([]int, error) { return proc.CalledLike(pattern) }

// checkName returns an error if a pattern of names is not valid.
func checkName(pattern string) error { return proc.CheckPattern(pattern) }

// isAmbiguous reports whether an error means that several processes have a name.
func isAmbiguous(err error) bool { return errors.Is(err, proc.ErrSeveral) }

func isNoProcess(err error) bool { return errors.Is(err, proc.ErrNoProcess) }

// hasPods reports whether this machine is a node of Kubernetes, where a name with a slash names a
// pod.
var hasPods = pods.Here

// tracingStatus returns the exit status of an error of tracing, and what is added to its message,
// or 0.
func tracingStatus(c *cobra.Command, err error) (status int, hint string) {
	var refused *rights.Error
	switch {
	case errors.Is(err, live.ErrKernel):
		return exitRights, ""
	case errors.As(err, &refused):
		return exitRights, withoutRights(c)
	case errors.Is(err, sdt.ErrNoProbes), isNoProcess(err):
		return exitNothing, ""
	}
	return 0, ""
}

// withoutSocket returns a process whose environment asks it to listen, but which does not, or 0.
func withoutSocket(pids []int) int {
	for _, pid := range pids {
		if isAsked, _ := wire.ParseVariable(proc.Environment(pid)(wire.Variable)); !isAsked {
			continue
		}
		if _, err := socket.Find(pid); err != nil {
			return pid
		}
	}
	return 0
}

// withoutRights returns a hint about a source of events that needs no rights. Functions have none.
func withoutRights(c *cobra.Command) string {
	if slices.ContainsFunc(c.Flags().Args(), spec.IsFunction) {
		return ": see stapsdt help rights"
	}
	if flag := c.Flags().Lookup("pid"); flag != nil {
		if processes, ok := flag.Value.(processList); ok {
			family := proc.Family(processes.PIDs)
			for _, r := range recordings.Of(family) {
				if !r.Kept {
					return fmt.Sprintf("; process %d records to %s, which --from reads", r.PID, r.File)
				}
			}
			if pid := withoutSocket(family); pid != 0 {
				return fmt.Sprintf("; the environment of process %d has %s=1, but it has not made its socket: its log has the reason, unless it never calls probeenv.Load", pid, wire.Variable)
			}
		}
	}
	return "; to need none, start the program with STAPSDT_SOCKET=1, which probeenv.Load and the C library obey, and watch it as its own user: see stapsdt help rights"
}

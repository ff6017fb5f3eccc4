//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/workload"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// inpodCommand returns the hidden command that kubectl stapsdt runs in a pod.
func inpodCommand(to *console.Console) *cobra.Command {
	c := &cobra.Command{Use: inpod.Verb, Short: "Serve kubectl stapsdt in a pod", Hidden: true}
	c.RunE = func(*cobra.Command, []string) error {
		return query.Usagef("%s is for kubectl stapsdt", inpod.Verb)
	}
	c.AddCommand(
		waitCommand(to), lookCommand(to), askCommand(to), sendCommand(to), accompanyCommand(to),
		resumeCommand(to),
	)
	return c
}

func waitCommand(to *console.Console) *cobra.Command {
	var idle time.Duration
	allowance := inpod.Allowance{Interval: 500 * time.Millisecond}
	c := &cobra.Command{Use: "wait", Args: cobra.NoArgs, RunE: func(
		c *cobra.Command, _ []string,
	) error {
		return inpod.Wait(c.Context(), to, allowance, idle)
	}}
	allowanceFlags(c, &allowance)
	c.Flags().DurationVar(&idle, "idle", 10*time.Minute, "end when no request came for this time")
	return c
}

// allowanceFlags adds the flags of the commands for a container.
func allowanceFlags(c *cobra.Command, a *inpod.Allowance) {
	c.Flags().StringVar(&a.Container, "container", "", "the `ID` of the container")
	c.Flags().BoolVar(&a.Alone, "alone", false, "it has a PID namespace of its own")
	c.Flags().BoolVar(&a.Shared, "shared", false, "this shares its memory limit")
	c.Flags().Int64Var(&a.Memory, "memory", inpod.Memory, "how many `BYTES` this may allocate")
	c.Flags().Int64Var(&a.Limit, "limit", 0, "the memory limit in `BYTES`, or 0")
}

func lookCommand(to *console.Console) *cobra.Command {
	var allowance inpod.Allowance
	var recorded inpod.Recorded
	c := &cobra.Command{Use: "look", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		if err := inpod.ProtectPod(to, allowance); err != nil {
			return err
		}
		answer, err := lookAt(&allowance, &recorded)
		if err != nil {
			return err
		}
		return render.NewEncoder(to.Out).Encode(answer)
	}}
	allowanceFlags(c, &allowance)
	recordedFlags(c, &recorded)
	return c
}

// askCommand returns the command that runs a verb for the processes of a container.
func askCommand(to *console.Console) *cobra.Command {
	var allowance inpod.Allowance
	var reader console.Reader
	var plain bool
	var terminal, pod, node string
	var resume time.Duration
	var recorded inpod.Recorded
	c := &cobra.Command{Use: "ask -- VERB...", Args: cobra.MinimumNArgs(1), RunE: func(
		c *cobra.Command, args []string,
	) error {
		if err := inpod.ProtectPod(to, allowance); err != nil {
			return err
		}
		if plain {
			os.Setenv("NO_COLOR", "1")
		}
		console.SetReader(reader)
		setPod(pod, node)
		if recorded.Kept { // the recording is sent, not read
			return holdKept(to, &allowance, &recorded)
		}
		verb, err := verbFor(to, &allowance, &recorded, args)
		if err != nil || verb == nil {
			return err
		}
		if terminal != "" {
			go func() {
				inpod.AwaitAlone(terminal)
				interrupt()
			}()
			return runVerb(c.Context(), to, &allowance, verb)
		}
		if resume > 0 {
			return recordStream(c.Context(), to, allowance, resume, verb)
		}
		stopped, gone := inpod.ReadInput(os.Stdin)
		context.AfterFunc(stopped, interrupt)
		if args[0] != "record" {
			return runVerb(c.Context(), to, &allowance, verb)
		}
		return recordInMemory(c.Context(), to, allowance, gone, verb)
	}}
	allowanceFlags(c, &allowance)
	recordedFlags(c, &recorded)
	c.Flags().StringVar(&terminal, "terminal", "", "standard input is a terminal, and the keepalive has this `TOKEN`")
	c.Flags().DurationVar(&resume, inpod.Resume, 0, "how long to record after the connection was lost")
	c.Flags().StringVar(&pod, "pod", "", "the names `NAMESPACE/POD/CONTAINER` of the container")
	c.Flags().StringVar(&node, "node", "", "the `NAME` of its node")
	c.Flags().IntVar(&reader.Columns, "columns", 0, "how wide the reader's terminal is")
	c.Flags().BoolVar(&reader.Colored, "color", false, "the reader's terminal has colors")
	c.Flags().BoolVar(&plain, "no-color", false, "the reader wants no colors")
	return c
}

// setPod sets the names of the container, NAMESPACE/POD/CONTAINER, and of its node, if known.
func setPod(pod, node string) {
	if names := strings.Split(pod, "/"); len(names) == 3 {
		live.SetPod(recording.Pod{
			Namespace: names[0], Name: names[1], Container: names[2],
			Workload: workload.Of(names[1], node), Node: node,
		})
	}
}

// interrupt ends a verb as Ctrl-C does.
func interrupt() { _ = unix.Kill(os.Getpid(), unix.SIGTERM) }

// runVerb runs a verb, which may watch programs.
func runVerb(
	ctx context.Context, to *console.Console, a *inpod.Allowance, args []string,
) error {
	if args[0] != "list" && !slices.ContainsFunc(args, isFrom) {
		limit, err := a.RingLimit()
		if err != nil {
			return err
		}
		live.SetRingLimit(limit)
	}
	root := rootCommand(to)
	launchesNone(root)
	root.SetArgs(args)
	root.SetOut(to.Out)
	root.SetErr(to.Err)
	return root.ExecuteContext(ctx)
}

// isFrom reports whether an argument is a recording to read.
func isFrom(arg string) bool { return strings.HasPrefix(arg, "--from=") }

// recordInMemory records into memory, and keeps the recording to be fetched until gone is done,
// unless it was sent while it was made.
func recordInMemory(
	ctx context.Context, to *console.Console, allowance inpod.Allowance, gone context.Context,
	args []string,
) error {
	var size int64
	for _, arg := range args {
		if text, ok := strings.CutPrefix(arg, "--size="); ok {
			size, _ = strconv.ParseInt(text, 10, 64)
		}
	}
	f, err := inpod.NewMemory(allowance, size)
	if err != nil {
		return err
	}
	defer f.Close()
	err = runVerb(ctx, to, &allowance, slices.Insert(args, 1, "--output-file="+f.Name()))
	if err != nil || slices.Contains(args, "--"+inpod.Increments) {
		return err
	}
	to.Stay() // a signal ends the recording, not this command
	return inpod.Hold(gone, to.Out, f)
}

// recordStream records into memory, and sends the recording while it is made. It goes on for a
// while without a connection.
func recordStream(
	ctx context.Context, to *console.Console, allowance inpod.Allowance, patience time.Duration,
	args []string,
) error {
	stream, err := inpod.NewStream(patience, interrupt)
	if err != nil {
		return err
	}
	to.Out = stream
	err = recordInMemory(ctx, to, allowance, ctx, args)
	stream.Close(err == nil)
	return err
}

func sendCommand(to *console.Console) *cobra.Command {
	return &cobra.Command{Use: "send PID FD", Args: cobra.ExactArgs(2), RunE: func(
		_ *cobra.Command, args []string,
	) error {
		pid, pidErr := strconv.Atoi(args[0])
		fd, fdErr := strconv.Atoi(args[1])
		if err := errors.Join(pidErr, fdErr); err != nil {
			return query.Usagef("%w", err)
		}
		if err := inpod.ProtectPod(to, inpod.Allowance{}); err != nil {
			return err
		}
		return inpod.Send(to.Out, pid, fd)
	}}
}

func accompanyCommand(to *console.Console) *cobra.Command {
	use := inpod.Keepalive + " TOKEN"
	run := func(*cobra.Command, []string) error {
		if err := inpod.ProtectPod(to, inpod.Allowance{}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	return &cobra.Command{Use: use, Args: cobra.ExactArgs(1), RunE: run}
}

func resumeCommand(to *console.Console) *cobra.Command {
	run := func(*cobra.Command, []string) error {
		if err := inpod.ProtectPod(to, inpod.Allowance{}); err != nil {
			return err
		}
		err := inpod.ResumeStream(os.Stdin, os.Stdout, os.Stderr)
		if errors.Is(err, inpod.ErrCut) {
			return statusError(exitFailure) // the request has reported why
		}
		return err
	}
	return &cobra.Command{Use: inpod.Resume, Args: cobra.NoArgs, RunE: run}
}

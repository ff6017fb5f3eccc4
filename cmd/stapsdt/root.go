package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/nearest"
	"github.com/spf13/cobra"
)

// grace is the time that a command may continue after a signal, before it gathers its results: it
// may wait for a reader that does not read, or for a file system that does not answer. On a busy
// machine, a scan of the processes takes seconds.
const grace = 15 * time.Second

// resultsGrace is the time that it may then take to detach and to show the results. Before Linux
// 6.6, detaching from a thousand sites takes most of a minute.
const resultsGrace = time.Minute

func execute(args []string, stdout, stderr io.Writer) int {
	return executeFor(nil, args, stdout, stderr)
}

// executeFor is execute for a verb that takes the events of pods, unless pods is nil.
func executeFor(pods replay.Replicas, args []string, stdout, stderr io.Writer) int {
	ignoreReaders()
	ctx, stop := signal.NotifyContext(context.Background(), console.Ends()...)
	defer stop()
	to := &console.Console{Out: stdout, Err: stderr}
	defer context.AfterFunc(ctx, func() {
		stop() // so that a second signal kills the command
		to.Abandon(grace, resultsGrace, func() { os.Exit(exitFailure) })
	})()
	root := commandFor(to, args)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if pods != nil {
		launchesNone(root)
		readPods(root, args, pods)
	}
	c, err := root, checkDashes(root, args)
	if err == nil {
		c, err = root.ExecuteContextC(ctx)
	}
	if err == nil || isReaderGone(err) {
		return 0
	}
	return fail(to, c, err)
}

// readPods lets the verb of a command line take the events of pods in place of processes.
func readPods(root *cobra.Command, args []string, pods replay.Replicas) {
	if c, _, err := root.Find(args); err == nil {
		if from := recordingsOf(c); from != nil {
			from.Replicas = pods
		}
	}
}

// isReaderGone reports whether an error comes from writing to a pipe whose reader has ended. The
// error of a socket has another type, and is a failure.
func isReaderGone(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && slices.ContainsFunc(brokenPipes, func(broken error) bool {
		return errors.Is(write, broken)
	})
}

func fail(to *console.Console, c *cobra.Command, err error) int {
	var wrong *expr.Error
	var status statusError
	if errors.As(err, &status) {
		return int(status)
	}
	var pods interface{ ExitStatus() int }
	err = console.Explain(err)
	said, exit := err.Error(), remoteStatus(err)
	tracing, hint := tracingStatus(c, err)
	switch {
	case errors.As(err, &pods):
		exit = pods.ExitStatus()
	case errors.Is(err, query.ErrUsage), errors.As(err, &wrong):
		exit = exitUsage
	case tracing != 0:
		said += hint
		exit = tracing
	case errors.Is(err, query.ErrNothing), errors.Is(err, fs.ErrNotExist):
		exit = exitNothing
	case errors.Is(err, fs.ErrPermission):
		exit = exitRights
	}
	to.Warn("%s", said)
	v := c.Flags().Lookup("verbose")
	to.WarnRaw(err, v != nil && v.Value.String() == "true")
	return exit
}

func noCommand(root *cobra.Command, word string) error {
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	hint := nearest.Hint(word, names...)
	for verb, words := range otherWords {
		if slices.Contains(strings.Fields(words), word) && slices.Contains(names, verb) {
			hint = "; the command for that is " + verb
		}
	}
	if strings.Contains(word, ":") {
		hint = fmt.Sprintf("; to trace these probes, give stapsdt trace '%s'", word)
	}
	return query.Usagef("there is no command %q%s: see stapsdt help", word, hint)
}

// otherWords maps each command to the words of other tools for it.
var otherWords = map[string]string{
	"list": "ls ps probes show", "trace": "tail attach events run", "count": "stat stats funccount",
	"hist": "histogram argdist", "latency": "time funclatency", "top": "watch monitor", "tree": "spans traces",
	"postmortem": "crash autopsy blackbox flightrecorder",
	"stack":      "stacks profile flame flamegraph", "record": "dump capture", "export": "metrics serve exporter",
	"script": "bpftrace", "doctor": "check diagnose debug", "clean": "rm prune gc",
}

// onlyLinux are the names of the commands that need Linux.
var onlyLinux = []string{"record", "stack", "script", "export", "doctor", "clean"}

// verbs returns the functions that make the commands which need no other, by their names.
func verbs() map[string]func(*console.Console) *cobra.Command {
	all := map[string]func(*console.Console) *cobra.Command{
		"list": listCommand, "trace": traceCommand, "count": countCommand, "hist": histCommand,
		"latency": latencyCommand, "top": topCommand, "tree": treeCommand,
		"postmortem": postmortemCommand, "generate": generateCommand, "version": versionCommand,
	}
	maps.Copy(all, linuxVerbs())
	return all
}

// commandFor returns the root with the command that the arguments name, or else with all: to make
// all, with their flags, takes milliseconds.
func commandFor(to *console.Console, args []string) *cobra.Command {
	if len(args) > 0 {
		if verb := verbs()[args[0]]; verb != nil {
			root := emptyRoot()
			root.CompletionOptions.DisableDefaultCmd = true
			root.AddCommand(verb(to))
			return root
		}
	}
	return rootCommand(to)
}

// rootCommand returns the root with all commands.
func rootCommand(to *console.Console) *cobra.Command {
	root := emptyRoot()
	for _, verb := range verbs() {
		root.AddCommand(verb(to))
	}
	root.AddCommand(manCommand())
	root.AddCommand(topics()...)
	completeSpecs(root)
	refuseOthers(root)
	return root
}

func emptyRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "stapsdt",
		Short: "List, trace and count the SDT probes of any program",
		Long: `stapsdt lists, traces and counts the SDT probes (USDT probes) of any program, and exports
them as metrics and spans.

A probe is named [FILE:]PROVIDER:PROBE. The provider and the probe may contain *, ? and [a-z].
go:PATTERN names the calls of functions of any Go program, go:PATTERN:return their returns, and
go:FILE.go:LINE a line.

Tracing needs root, or the capabilities that "stapsdt help rights" lists. "stapsdt help expressions"
describes what -w and --by take, and "stapsdt help json" what -o json prints.

` + statusHelp(),
		Version:           build(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		// Without a command, it prints the help; an unknown command is an error.
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(c, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if word := c.Flags().Args(); c == root && len(word) > 0 {
			return noCommand(root, word[0])
		}
		return flagError(c, err)
	})
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		args, _ = cutCommand(c, args)
		if err := settleTarget(c); err != nil {
			return err
		}
		return errors.Join(checkStrayPID(c, args), checkStrayAddress(c, args),
			checkWindow(c), checkDebugFile(c, args))
	}
	return root
}

// refuseOthers makes it an error to ask for the help of a command that does not exist, or for the
// completion of another shell.
func refuseOthers(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if found, _, _ := root.Find(args); found == root && len(args) > 0 {
					return noCommand(root, args[0])
				}
				return nil
			}
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
				if len(args) > 0 {
					return query.Usagef("there is no completion for %q: see stapsdt completion --help", args[0])
				}
				return c.Help()
			}
		}
	}
}

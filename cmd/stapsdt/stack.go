//go:build linux

package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/stack"

	"github.com/spf13/cobra"
)

func stackCommand(to *console.Console) *cobra.Command {
	var config query.Config
	var options stack.Options
	var from replay.From
	c := &cobra.Command{
		Use:   "stack SPEC... (-p PID | -a | with FILE in each SPEC | -- COMMAND)",
		Short: "Count the stacks from which events come",
		Long: `Count in the kernel from which stacks of functions the probes are fired, until Ctrl-C, and
print the most frequent ones, or all of them for a flame graph.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes, or they are COMMAND,
which is started, and what it starts.`,
		Example: `  stapsdt stack -p 1234 myapp:request__done -d 10s
  stapsdt stack -p 1234 myapp:request__done -w 'status >= 500' -o folded | flamegraph.pl > graph.svg
  stapsdt stack -p 1234 'myapp:*' --by status -o pprof -O fired.pb.gz && go tool pprof -top fired.pb.gz`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if from.Given() {
				return query.Usagef("stack needs the kernel, because recordings have no stacks: %s take --from", readers())
			}
			if config.Specs, err = parseSpecs(args); err != nil {
				return err
			}
			return stack.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	byFlag(c, &options.By)
	c.Flags().BoolVarP(&options.Verbose, "verbose", "v", false, "also show the frames of the stapsdt library")
	options.Format = stack.Formats[0]
	choiceFlag(c, func(to string) { options.Format = to }, "output", "o", options.Format,
		"`FORMAT`: text, json with an object and folded with a line for each stack, or pprof", stack.Formats...)
	c.Flags().StringVarP(&options.File, "output-file", "O", "", "write to `FILE` instead of standard output")
	limitFlag(c, &options.Limit, "stacks")
	fromFlag(c, &from)
	for _, name := range []string{"from", "since", "until"} {
		_ = c.Flags().MarkHidden(name)
	}
	return c
}

package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/timeline"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/trace"

	"github.com/spf13/cobra"
)

func traceCommand(to *console.Console) *cobra.Command {
	var config query.Config
	var options trace.Options
	var path string
	format := query.Text.Word()
	c := &cobra.Command{
		Use:   "trace (SPEC... (-p PID | -a | with FILE in each SPEC | -- COMMAND) | --from FILE [SPEC...] | http://HOST/debug/probes/ [SPEC...])",
		Short: "Print a line for each event",
		Long: `Print a line for each event of the probes, in the order of their times, until Ctrl-C.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes, or they are COMMAND,
which is started, and what it starts.

With --from, the events are those of recordings: see proberec.Create. This needs no root.

An address is that of a program that mounts debugprobe. The program itself then sends the
events, and evaluates the expression of -w. This needs neither root nor Linux there.

With -o csv, each name of an argument is a column, and so is each expression of --show. If
programs can come later, all arguments are in one column, as an object of JSON.

With -o perfetto, or -o chrome for chrome://tracing and speedscope, the events and the
operations between NAME__start and NAME__end are written for viewers that draw them on a
time axis. -w then applies to an operation as a whole, as in latency.`,
		Example: `  stapsdt trace -p 1234 'myapp:*'
  stapsdt trace http://localhost:8080/debug/probes/ 'myapp:*' -w 'status >= 500'
  stapsdt trace --from /dev/shm/shop.rec 'http:*' -w 'status >= 500'
  stapsdt trace -a myapp:request__done -w 'status >= 500'
  stapsdt trace -p 1234 myapp:request__done -d 5s -o csv >requests.csv
  stapsdt trace -p 1234 'myapp:*' -d 5s -o perfetto -O myapp.trace
  stapsdt trace postgres:postgresql:query__start --show 'pid,str(arg0)'
  stapsdt trace 'go:main.*' -- ./myapp --port 80`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if config.Specs, err = parseSpecs(cutAddress(args, &options.From)); err != nil {
				return err
			}
			if outfile.Timelines[format] != "" {
				config.Verbose = options.Verbose
				return runTimeline(c, to, config, timeline.Options{
					Format: format, Path: path, Limit: options.Limit, From: options.From,
				})
			}
			if path != "" {
				return query.Usagef("-O %s is for -o chrome and -o perfetto: for -o %s, write >%[1]s", path, format)
			}
			config.Format = formatOf(format)
			return trace.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	choiceFlag(c, func(to string) { format = to }, "output", "o", format, "`FORMAT`: text, json for one object per line, csv for a table, or chrome or perfetto for a timeline in the file of -O", traceFormats()...)
	c.Flags().StringVarP(&path, "output-file", "O", "", "the `FILE` of -o chrome or perfetto, or - for standard output")
	c.Flags().Uint64VarP(&options.Limit, "number", "n", 0, "end after `N` events")
	c.Flags().StringArrayVar(&options.Show, "show", nil, "the values of the Go expressions `EXPR,...` instead of all arguments; str(arg0) is the text at arg0")
	c.Flags().IntVar(&options.TextSize, "strlen", 256, fmt.Sprintf("show at most `N` bytes of a text, up to %d", trace.MaxText))
	c.Flags().BoolVar(&options.Stack, "stack", false, "show the stack from which each event was fired, or the function was called, once for equal ones")
	sourceFlags(c, &options.From)
	c.Flags().BoolVarP(&options.Verbose, "verbose", "v", false, "show the fields of structs that arguments point to, and report whether the events come from the kernel or from sockets")
	return c
}

// traceFormats returns the formats of lines and of timelines.
func traceFormats() (words []string) {
	for _, f := range query.Formats {
		words = append(words, f.Word())
	}
	return append(words, slices.Sorted(maps.Keys(outfile.Timelines))...)
}

// checkFile checks the arguments of a format for a file. It does not permit flags about lines.
func checkFile(c *cobra.Command, format string, from *replay.From) error {
	for _, name := range []string{"show", "strlen", "follow", "stack"} {
		if c.Flags().Changed(name) {
			return query.Usagef("--%s is not for -o %s", name, format)
		}
	}
	if from.Address != "" {
		return query.Usagef("-o %s needs the kernel, a socket or a recording, not an address", format)
	}
	return nil
}

// runTimeline writes the events to a file for viewers.
func runTimeline(
	c *cobra.Command, to *console.Console, config query.Config, o timeline.Options,
) error {
	if err := checkFile(c, o.Format, &o.From); err != nil {
		return err
	}
	return timeline.Run(c.Context(), to, config, o)
}

//go:build linux

package main

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/trace"

	"github.com/spf13/cobra"
)

func traceCommand(to *console.Console) *cobra.Command {
	var config run.Config
	var options trace.Options
	c := &cobra.Command{
		Use:   "trace (SPEC... (-p PID | -a | with FILE in each SPEC) | --from FILE [SPEC...] | http://HOST/debug/probes/ [SPEC...])",
		Short: "Print a line for each event",
		Long: `Print a line for each event of the probes, in the order of their times, until Ctrl-C.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes.

With --from, the events are those of recordings: see proberec.Create. This needs no root.

An address is that of a program that mounts debugprobe. The program itself then sends the
events, and evaluates the expression of -w. This needs neither root nor Linux there.`,
		Example: `  stapsdt trace -p 1234 'myapp:*'
  stapsdt trace http://localhost:8080/debug/probes/ 'myapp:*' -w 'status >= 500'
  stapsdt trace --from /dev/shm/shop.rec 'http:*' -w 'status >= 500'
  stapsdt trace -a myapp:request__done -w 'status >= 500'
  stapsdt trace postgres:postgresql:query__start --show 'pid,str(arg0)'`,
		RunE: func(c *cobra.Command, args []string) error {
			config.Specs = args
			return trace.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, &config)
	outputFlag(c, &options.JSON)
	c.Flags().Uint64VarP(&options.Limit, "number", "n", 0, "end after `N` events")
	c.Flags().StringArrayVar(&options.Show, "show", nil, "the values of the Go expressions `EXPR,...` instead of all arguments; str(arg0) is the text at arg0")
	c.Flags().IntVar(&options.TextSize, "strlen", 256, fmt.Sprintf("show at most `N` bytes of a text, up to %d", trace.MaxText))
	fromFlag(c, &options.From)
	c.Flags().BoolVar(&options.Follow, "follow", false, "with --from, also show what is written from now on, until Ctrl-C")
	c.Flags().BoolVarP(&options.Verbose, "verbose", "v", false, "show the fields of structs that arguments point to")
	return c
}

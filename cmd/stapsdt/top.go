package main

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/top"

	"github.com/spf13/cobra"
)

func topCommand(to *console.Console) *cobra.Command {
	var config query.Config
	options := top.Options{Interval: time.Second}
	c := &cobra.Command{
		Use:   "top [SPEC...] (-p PID | -a | --from FILE) | http://HOST/debug/probes/ [SPEC...]",
		Short: "Show which operations are running, and how long they take",
		Long: `Show the operations of the processes on a screen that is refreshed: their rate, how many
are open, their errors, median and 99th percentile, and those that have been open longest, with
the arguments of their start.

An operation has two probes, NAME__start and NAME__end or NAME__done, which are paired by their
first argument, such as the id of a span. SPEC is [FILE:]PROVIDER:NAME; without one, it is all.

go:PATTERN shows the functions of a Go program whose calls have returned in the last ten intervals,
those with the most time first: see stapsdt help latency for TOTAL and OWN. Two lines, such as
go:cart.go:21 go:cart.go:28, are an operation from the first to the second in a goroutine.

On a terminal, keys sort, filter, pause, and open a row: ? lists them. With -n, and where the
output is no terminal, one screen follows another.`,
		Example: `  stapsdt top -p 1234
  stapsdt top -p shop 'shop:*' --by route
  stapsdt top -p shop 'go:main.*' --budget 1%
  stapsdt top -a -n 1 -o json
  stapsdt top --from /dev/shm/shop.rec`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if config.Specs, err = parseSpecs(cutAddress(args, &options.From)); err != nil {
				return err
			}
			return top.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	verboseFlag(c, &config)
	keyFlag(c, &options.Key, " (default: their first argument)")
	outputFlag(c, &config.Format)
	fromFlag(c, &options.From)
	c.Flags().StringArrayVar(&options.By, "by", nil, "a row for each of the values of the Go expressions `EXPR,...`")
	c.Flags().IntVarP(&options.Screens, "number", "n", 0, "end after `N` screens")
	c.Flags().DurationVarP(&options.Interval, "interval", "i", options.Interval, "the time between two screens")
	return c
}

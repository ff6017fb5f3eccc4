package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"

	"github.com/spf13/cobra"
)

func treeCommand(to *console.Console) *cobra.Command {
	var config query.Config
	var options tree.Options
	c := &cobra.Command{
		Use:   "tree [SPEC...] (-p PID | -a | --from FILE | -- COMMAND)",
		Short: "Print what each operation consists of, when it has ended",
		Long: `Print a tree for each operation that has no parent, such as a request, when it has ended: the
operations within it, how long each took, how much of this time was its own, and its part of
the root's time, with the arguments of its start and end.

Operations are the spans of package span and of the ready-made probes. SPEC is
[FILE:]PROVIDER:NAME, where NAME__start and NAME__end are the probes; without one, it is all.
With go:PATTERN, they are the calls of functions of Go programs, each within the last one that
its goroutine has begun. Two lines, such as go:cart.go:21 go:cart.go:28, are an operation from the
first to the second in a goroutine. -w applies to the root.

Operations that have not ended are counted, or with --open shown when the command or their
process ends. With --from, they are always shown.`,
		Example: `  stapsdt tree -p 1234 -w 'path == "/orders"'
  stapsdt tree -p 1234 --slowest 3 -d 10s
  stapsdt tree -p 1234 --errors --open -d 10s
  stapsdt tree --from /dev/shm/shop.rec --request 797
  stapsdt tree -p 1234 'go:main.*' -w 'req.Path == "/orders"'
  stapsdt tree --from /dev/shm/shop.rec --slowest 1 -o json`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if config.Specs, err = parseSpecs(cutAddress(args, &options.From)); err != nil {
				return err
			}
			return tree.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	verboseFlag(c, &config)
	keyFlag(c, &options.Key, " (default: their first argument)")
	outputFlag(c, &config.Format)
	sourceFlags(c, &options.From)
	c.Flags().Lookup("where").Usage = "only trees for whose roots the Go expression `EXPR` is true, such as 'status >= 500'"
	c.Flags().IntVarP(&options.Limit, "number", "n", 0, "end after `N` trees")
	c.Flags().IntVar(&options.Slowest, "slowest", 0, "only the `N` slowest trees, when the command ends")
	c.Flags().StringVar(&options.Request, "request", "", "only the tree of the operation with this `ID`, which trace and latency show")
	c.Flags().BoolVar(&options.Open, "open", false, "also trees whose roots have not ended, when the command or their process ends")
	c.Flags().BoolVar(&options.Errors, "errors", false, "only trees in which an operation has failed")
	return c
}

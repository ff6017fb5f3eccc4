package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"

	"github.com/spf13/cobra"
)

func countCommand(to *console.Console) *cobra.Command {
	var config query.Config
	var options count.Options
	c := &cobra.Command{
		Use:   "count (SPEC... (-p PID | -a | with FILE in each SPEC | -- COMMAND) | --from FILE [SPEC...] | http://HOST/debug/probes/ [SPEC...])",
		Short: "Count events",
		Long: `Count the events of the probes in the kernel, until Ctrl-C, and print the numbers.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes, or they are COMMAND,
which is started, and what it starts.`,
		Example: `  stapsdt count -p 1234 'myapp:*' -d 10s
  stapsdt count -a myapp:request__done --by status,pid -i 1s
  stapsdt count -p 1234 myapp:request__done --by path --sum bytes --sort sum
  stapsdt count postgres:postgresql:query__start --by 'str(arg0)'`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if config.Specs, err = parseSpecs(cutAddress(args, &options.From)); err != nil {
				return err
			}
			if c.Flags().Changed("sum") {
				if err := query.CheckSyntax(options.Value); err != nil {
					return err
				}
			}
			return count.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	verboseFlag(c, &config)
	countFlags(c, &config, &options)
	c.Flags().StringVar(&options.Value, "sum", "", "also add the values of the Go expression `EXPR`")
	return c
}

// countFlags adds the flags of the commands that count in tables.
func countFlags(c *cobra.Command, config *query.Config, o *count.Options) {
	outputFlag(c, &config.Format)
	byFlag(c, &o.By)
	limitFlag(c, &o.Limit, "rows")
	c.Flags().StringVar(&o.Sort, "sort", "count", "the rows by `COLUMN`, the largest number first: count, sum with --sum, for hist and latency average, p50, p99 or max, and for functions total or own")
	_ = c.RegisterFlagCompletionFunc(
		"sort",
		cobra.FixedCompletions(
			[]string{"count", "sum", "average", "p50", "p99", "max", "total", "own"}, cobra.ShellCompDirectiveNoFileComp,
		),
	)
	sourceFlags(c, &o.From)
	c.Flags().DurationVarP(&o.Interval, "interval", "i", 0, "show the numbers at this interval too, such as 1s")
}

func byFlag(c *cobra.Command, by *[]string) {
	c.Flags().StringArrayVar(by, "by", nil, "count for each value of the Go expressions `EXPR,...` separately")
}

func limitFlag(c *cobra.Command, limit *int, what string) {
	c.Flags().IntVarP(limit, "number", "n", 20, "with -o text, the `N` first "+what+", or 0 for all")
}

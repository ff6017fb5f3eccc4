package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/latency"

	"github.com/spf13/cobra"
)

func latencyCommand(to *console.Console) *cobra.Command {
	var config query.Config
	var key []string
	options := count.Options{Expressions: count.Expressions{Buckets: query.Powers{}}}
	c := &cobra.Command{
		Use:   "latency [http://HOST/debug/probes/] (START END | SPEC) (-p PID | -a | --from FILE | with FILE in each | -- COMMAND)",
		Short: "Print how long operations take, from one probe to another",
		Long: `Pair the events of two probes in the kernel, until Ctrl-C, and print a histogram and
quantiles of the time between, the numbers of starts and ends that have no counterpart, and
the operations that have been open longest.

START and END are [FILE:]PROVIDER:PROBE. A single SPEC stands for SPEC__start and SPEC__end or SPEC__done.
Such probes are paired by their first argument, which is the id of a span. Others need --key.
A single go:PATTERN stands for the calls of functions and their returns. For a pattern, or with
--by function, it prints one table of the functions, those with the most time first. TOTAL is the
time of the calls of a function, in which recursive calls count once. OWN is without the selected
functions that it calls. Both include the time for which calls wait. The time of a call that a panic
ends counts as OWN of its caller. --table=false prints histograms instead.`,
		Example: `  stapsdt latency -p 1234 myapp:query
  stapsdt latency -p 1234 myapp:query__start myapp:query__end --by 'text,error != ""'
  stapsdt latency -p 1234 myapp:begin myapp:done --key goroutine
  stapsdt latency -p 1234 pool:linked pool:unlinked --key client,port
  stapsdt latency -p 1234 'go:main.*' --sort own --budget 1%
  stapsdt latency postgres:postgresql:query__start postgres:postgresql:query__done --key thread`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if args = cutAddress(args, &options.From); len(args) != 1 && len(args) != 2 {
				return query.Usagef("latency takes the probes of the start and of the end, or the name that their __start and __end follow")
			}
			if config.Specs, err = parseSpecs(args); err != nil {
				return err
			}
			changed := c.Flags().Changed
			options.Histograms = changed("linear") || changed("table") && !options.Table
			if !changed("sort") {
				options.Sort = ""
			}
			return latency.Run(c.Context(), to, config, key, options)
		},
	}
	runFlags(c, to, &config)
	verboseFlag(c, &config)
	countFlags(c, &config, &options)
	linearFlag(c, &options.Buckets)
	tableFlag(c, &options)
	keyFlag(c, &key, "")
	return c
}

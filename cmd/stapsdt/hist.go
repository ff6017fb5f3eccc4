package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"

	"github.com/spf13/cobra"
)

func histCommand(to *console.Console) *cobra.Command {
	var config query.Config
	options := count.Options{Expressions: count.Expressions{Buckets: query.Powers{}}}
	c := &cobra.Command{
		Use:   "hist [http://HOST/debug/probes/] SPEC EXPR (-p PID | -a | --from FILE | with FILE in SPEC | -- COMMAND)",
		Short: "Print a histogram and quantiles of a value",
		Long: `Collect the values of a Go expression in the kernel, until Ctrl-C, and print a histogram
and quantiles. The buckets are powers of two, or of one size with --linear.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes, or they are COMMAND,
which is started, and what it starts.`,
		Example: `  stapsdt hist -p 1234 myapp:request__done elapsed
  stapsdt hist -a myapp:request__done elapsed/time.Millisecond --by path --linear 0:100:10`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			args = cutAddress(args, &options.From)
			if len(args) != 2 {
				return query.Usagef("hist takes a SPEC and an expression, such as myapp:request__done elapsed")
			}
			options.Value = args[1]
			if err := query.CheckSyntax(options.Value); err != nil {
				if strings.Contains(args[1], ":") && !strings.Contains(args[0], ":") {
					err = query.Usagef("hist takes the SPEC before the expression: give %s %s", args[1], args[0])
				}
				return err
			}
			if config.Specs, err = parseSpecs(args[:1]); err != nil {
				return err
			}
			return count.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	verboseFlag(c, &config)
	countFlags(c, &config, &options)
	linearFlag(c, &options.Buckets)
	tableFlag(c, &options)
	return c
}

func tableFlag(c *cobra.Command, o *count.Options) {
	c.Flags().BoolVar(&o.Table, "table", false, "a table with a row for each value of --by, even for few")
}

func linearFlag(c *cobra.Command, buckets *query.Buckets) {
	c.Flags().Func("linear", "buckets of one size, from `LOW:HIGH:STEP`; durations such as 10ms are allowed", func(text string) error {
		parsed, err := parseLinear(text)
		*buckets = parsed
		return err
	})
}

// parseLinear parses the bounds of buckets of one size.
func parseLinear(text string) (l query.Linear, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return l, fmt.Errorf("%s is not LOW:HIGH:STEP", text)
	}
	var numbers [3]int64
	for i, part := range parts {
		if numbers[i], err = strconv.ParseInt(part, 0, 64); err == nil {
			continue
		}
		d, err := time.ParseDuration(part)
		if err != nil {
			return l, fmt.Errorf("%s: %q is neither an integer nor a duration", text, part)
		}
		numbers[i] = int64(d)
	}
	l = query.Linear{Low: numbers[0], High: numbers[1], Step: numbers[2]}
	if err := l.Check(); err != nil {
		return l, fmt.Errorf("%s: %w", text, err)
	}
	return l, nil
}

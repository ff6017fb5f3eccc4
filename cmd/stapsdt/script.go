//go:build linux

package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/tools/script"
	"github.com/spf13/cobra"
)

func scriptCommand(to *console.Console) *cobra.Command {
	var where query.Target
	var options script.Options
	c := &cobra.Command{
		Use:   "script SPEC... (-p PID | -a | with FILE in each SPEC)",
		Short: "Print a program for bpftrace that traces the probes",
		Long: `Print a program for bpftrace that prints each event of the probes, for a machine
that has bpftrace, from version 0.17 on, and not this command.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes. The
program has the probes that exist when it is made.`,
		Example: `  stapsdt script -p 1234 'myapp:*' >myapp.bt
  stapsdt script postgres:postgresql:query__start --str arg0 >query.bt`,
		RunE: func(_ *cobra.Command, args []string) error {
			specs, err := parseSpecs(args)
			if err != nil {
				return err
			}
			return script.Run(to, where, specs, options)
		},
	}
	targetFlags(c, &where)
	c.Flags().StringSliceVar(&options.Texts, "str", nil, "the arguments `ARG,...` are texts, such as arg0, although the file does not describe them as texts")
	return c
}

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
		Use:   "script SPEC... --for bpftrace|tracefs (-p PID | -a | with FILE in each SPEC)",
		Short: "Print a script that traces the probes without this command",
		Long: `Print a script that prints each event of the probes with a tracer that a machine already has:
bpftrace, from version 0.17 on, or the kernel alone, with events in tracefs.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes. The
script has the probes that exist when it is made.`,
		Example: `  stapsdt script -p 1234 'myapp:*' --for bpftrace >myapp.bt
  stapsdt script postgres:postgresql:query__start --for tracefs --str arg0 >query.sh`,
		RunE: func(_ *cobra.Command, args []string) error {
			specs, err := parseSpecs(args, nil)
			if err != nil {
				return err
			}
			return script.Run(to, where, specs, options)
		},
	}
	targetFlags(c, &where)
	choiceFlag(c, func(to string) { options.Tracer = to }, "for", "", "", "the `TRACER`: bpftrace, or tracefs for a shell script", "bpftrace", "tracefs")
	c.Flags().StringSliceVar(&options.Texts, "str", nil, "the arguments `ARG,...` are texts, such as arg0, although the file does not describe them as texts")
	return c
}

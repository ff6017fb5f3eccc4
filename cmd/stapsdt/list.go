package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/list"
	"github.com/spf13/cobra"
)

func listCommand(to *console.Console) *cobra.Command {
	var where query.Target
	var options list.Options
	c := &cobra.Command{
		Use:   "list (-p PID | -a | FILE... | --from FILE | http://HOST/debug/probes/ | go:PATTERN (-p PID | FILE...))",
		Short: "List probes, their arguments, and what is traced now",
		Long: `List the probes of processes or of files, with the names and types of their arguments
as far as the files describe them. Where a type is unknown, the size and the sign of the
argument are shown as a type of Go: int32, uint8.

For a recording, it also shows the number of events of each probe.

For go:PATTERN, it lists the functions of Go programs that can be traced like probes, where they are
in the source, and with -v how each call is seen. For go:FILE.go:LINE or LINE-LINE, it lists the
statements that begin there.

At an address, a Go program lists its probes itself, by package debugprobe.`,
		Example: `  stapsdt list -p 1234
  stapsdt list -v /usr/lib/postgresql/15/bin/postgres
  stapsdt list -a -o json
  stapsdt list -p 1234 'go:main.*'
  stapsdt list http://localhost:8080/debug/probes/`,
		RunE: func(c *cobra.Command, args []string) error {
			return list.Run(c.Context(), to, where, args, options)
		},
	}
	targetFlags(c, &where)
	debugFlag(c, &where)
	fromFlag(c, &options.From)
	c.Flags().BoolVarP(&options.Verbose, "verbose", "v", false, "show each site: its offset, its semaphore and the operands of its arguments")
	outputFlag(c, &options.Format)
	return c
}

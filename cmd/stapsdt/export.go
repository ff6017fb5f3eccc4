//go:build linux

package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/spf13/cobra"
)

func exportCommand(to *console.Console) *cobra.Command {
	var options export.Options
	var check bool
	c := &cobra.Command{
		Use:   "export -c FILE [--listen ADDR] [--otlp ENDPOINT]",
		Short: "Make metrics of probes for Prometheus, and metrics and spans for OpenTelemetry",
		Long: `Count in the kernel the events of the probes that a file of rules names, in every process on
the machine, in containers too. Rules can name functions of Go programs (go:FUNCTION) as well.
Prometheus asks for the metrics at /metrics. With --otlp, the metrics and the spans that the rules
name are sent by the OpenTelemetry protocol.

The file is read again when it changes, and on SIGHUP. A rule that stays the same goes on
counting. If the file is wrong, the rules in force stay.`,
		Example: `  stapsdt export -c rules.yaml
  stapsdt export -c rules.yaml --listen :9964 --web.config.file web.yaml
  stapsdt export -c rules.yaml --otlp http://localhost:4318
  stapsdt export -c rules.yaml --check`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return query.Usagef("export takes no argument %s: give the file of rules as -c %[1]s, and name the probes there", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case options.Rules == "":
				return query.Usagef("no rules: give -c FILE")
			case check:
				_, err := rules.Read(options.Rules)
				return err
			}
			return export.Run(c.Context(), to, options)
		},
	}
	c.Flags().StringVarP(&options.Rules, "config", "c", "", "the `FILE` of rules")
	c.Flags().StringVar(&options.Listen, "listen", "", "answer Prometheus at this `ADDR`, such as :9964 (default "+export.DefaultListen+", and with --otlp not at all)")
	c.Flags().StringVar(&options.Web, "web.config.file", "", "the `FILE` with certificates and users, as Prometheus's exporters have it")
	c.Flags().StringVar(&options.OTLP, "otlp", "", "send metrics and spans to this `ENDPOINT`, such as http://localhost:4318")
	viaFlag(c, &options.Via, "the kernel, or without any capability the sockets of the user's programs that listen")
	c.Flags().BoolVar(&check, "check", false, "only check the rules")
	return c
}

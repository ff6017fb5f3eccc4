package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/spf13/cobra"
)

// cutCommand splits the arguments of a verb at --. command has those after it, or is nil without
// --.
func cutCommand(c *cobra.Command, args []string) (specs, command []string) {
	at := c.ArgsLenAtDash()
	if at < 0 || at > len(args) || c.Annotations[launching] == "" {
		return args, nil
	}
	return args[:at], args[at:]
}

// launching is the annotation of the verbs that take a COMMAND.
const launching = "launching"

// launchesNone makes the arguments after -- ordinary arguments, even if they begin with a dash.
func launchesNone(root *cobra.Command) {
	for _, c := range root.Commands() {
		delete(c.Annotations, launching)
	}
}

// launches lets a verb take a COMMAND.
func launches(c *cobra.Command, to *console.Console, config *query.Config) {
	run := c.RunE
	c.Annotations = map[string]string{launching: "yes"}
	c.RunE = func(c *cobra.Command, args []string) error {
		specs, command := cutCommand(c, args)
		if command == nil {
			return run(c, args)
		}
		if err := checkCommand(c, config, specs, command); err != nil {
			return err
		}
		selects := specs
		if c.Name() == "hist" { // the second one is an expression
			selects = specs[:min(1, len(specs))]
		}
		return runWith(to, config, command, selects, func() error { return run(c, specs) })
	}
}

// checkCommand returns an error if anything but the COMMAND is to be traced.
func checkCommand(c *cobra.Command, config *query.Config, specs, command []string) error {
	from := recordingsOf(c)
	switch {
	case len(command) == 0:
		return query.Usagef("no command after --: give COMMAND and its arguments")
	case c.Name() == "top":
		return query.Usagef("top needs the terminal for itself: give -p PID, and start the command elsewhere")
	case config.Given():
		return query.Usagef("a COMMAND after -- is the process: leave out -p and -a")
	case from != nil && from.Given(), len(specs) > 0 && spec.IsAddress(specs[0]):
		return query.Usagef("a COMMAND after -- is the source of events: leave out the recording or the address")
	}
	return nil
}

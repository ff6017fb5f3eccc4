package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/spf13/cobra"
)

// cutCommand divides the arguments of a verb at two dashes, after which a COMMAND stands. It is nil
// without dashes.
func cutCommand(c *cobra.Command, args []string) (specs, command []string) {
	at := c.ArgsLenAtDash()
	if at < 0 || at > len(args) || c.Annotations[launching] == "" {
		return args, nil
	}
	return args[:at], args[at:]
}

// launching is the annotation of the verbs that take a COMMAND.
const launching = "launching"

// launchesNone lets the verbs take no COMMAND. What follows two dashes is then an argument, even if
// it begins with a dash.
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
		return runWith(to, config, command, func() error { return run(c, specs) })
	}
}

// checkCommand returns an error if something else is to be traced than the COMMAND.
func checkCommand(c *cobra.Command, config *query.Config, specs, command []string) error {
	from := recordingsOf(c)
	switch {
	case len(command) == 0:
		return query.Usagef("two dashes are followed by a COMMAND and its arguments")
	case c.Name() == "top":
		return query.Usagef("top needs the terminal for itself: give -p PID, and start the command elsewhere")
	case config.Given():
		return query.Usagef("a COMMAND after two dashes is the process, so -p and -a cannot be given")
	case from != nil && from.Given(), len(specs) > 0 && spec.IsAddress(specs[0]):
		return query.Usagef("a COMMAND after two dashes is the process, so there is no other source of events")
	}
	return nil
}

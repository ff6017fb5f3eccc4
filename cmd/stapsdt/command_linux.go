package main

import (
	"errors"
	"os"
	"os/signal"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/launch"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// ending is the time after which a message reports that a COMMAND outlives the verb.
const ending = time.Second

// ignoresInterrupt reports whether SIGINT was ignored when this process began, as it then is in a
// COMMAND.
var ignoresInterrupt = signal.Ignored(os.Interrupt)

// runWith starts a COMMAND, runs a verb with it, and waits for its end. Unless the verb fails, the
// error has the status of the COMMAND. specs are those of the verb.
func runWith(
	to *console.Console, config *query.Config, argv, specs []string, verb func() error,
) error {
	if ignoresInterrupt {
		signal.Ignore(os.Interrupt)
	}
	command, unheard, err := launch.Start(argv, specs)
	var failed *launch.Error
	if errors.As(err, &failed) {
		to.Warn("%v", err)
		return statusError(failed.Status())
	}
	if unheard != nil {
		to.Warn("the first events of probes that a program loads can be missed: %v", unheard)
	}
	config.PIDs, config.Command = []int{command.Pid}, command
	to.Share()
	err = verb()
	to.Stay()
	waits := time.AfterFunc(ending, func() {
		to.Warn("waiting for %s (process %d) to end", argv[0], command.Pid)
	})
	status, waitErr := command.End()
	waits.Stop()
	switch {
	case status != 0 && errors.Is(err, query.ErrNothing): // its own status says more
		to.Warn("%v", err)
		return statusError(status)
	case err != nil:
		return err
	case waitErr != nil:
		return waitErr
	case status != 0:
		return statusError(status)
	}
	return nil
}

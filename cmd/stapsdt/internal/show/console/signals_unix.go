//go:build unix

package console

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Ends returns the signals that end a command. An ignored SIGHUP, as after nohup, stays ignored. An
// ignored SIGINT does not: a shell ignores it in each job that a script starts in the background,
// and scripts end the job by it.
func Ends() []os.Signal {
	ends := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) {
		ends = append(ends, unix.SIGHUP)
	}
	return ends
}

//go:build unix

package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// ignoreReaders makes the end of a reader ("| head") an error of Write, and not a signal. A command
// that is started would inherit a signal that is ignored.
func ignoreReaders() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }

// brokenPipes are the errors of writing to a pipe whose reader has ended.
var brokenPipes = []error{unix.EPIPE}

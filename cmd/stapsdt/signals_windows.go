package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// ends are the signals that end a command: Ctrl-C, and the end of the console or of the session.
var ends = []os.Signal{os.Interrupt, syscall.SIGTERM}

// ignoreReaders does nothing: the end of a reader ("| more") is an error of Write.
func ignoreReaders() {}

// brokenPipes are the errors of writing to a pipe whose reader has ended.
var brokenPipes = []error{windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/remote"
)

// The exit statuses. Only doctor uses exitFault.
const (
	exitFailure = 1
	exitUsage   = 2
	exitNothing = 3
	exitRights  = 4
	exitGone    = 5
	exitFault   = 6
)

// statusMeanings describes the exit statuses in the help, the manual pages and docs/command.md.
var statusMeanings = []struct {
	status  int
	meaning string
}{
	{0, "done; also after Ctrl-C or SIGTERM, and when the reader of a pipe has ended. With a COMMAND, its status as a shell has it, unless the verb fails"},
	{exitFailure, "something failed, for example a file that is not ELF"},
	{exitUsage, "the command line, an expression or a file of rules is wrong"},
	{exitNothing, "no such probe, process or file, or nothing was ever attached to"},
	{exitRights, "rights are missing; the message names the capabilities. Or the server of an address asks for a password. Or clean left a file because the kernel does not report whether it is in use"},
	{exitGone, "the program at an address has gone away, or is shutting down"},
	{exitFault, "only doctor: something else keeps tracers from the probe"},
}

func statusHelp() string {
	var b strings.Builder
	b.WriteString("Exit statuses:")
	for _, s := range statusMeanings {
		fmt.Fprintf(&b, "\n  %d  %s", s.status, strings.ReplaceAll(s.meaning, ". ", ".\n     "))
	}
	return b.String()
}

// remoteStatus returns the exit status of an error that may come from a program that is traced by
// an address.
func remoteStatus(err error) int {
	var refused *remote.Error
	switch {
	case errors.Is(err, remote.ErrGone):
		return exitGone
	case errors.As(err, &refused):
		return cmp.Or(
			map[int]int{
				400: exitUsage, 401: exitRights, 403: exitRights, 404: exitNothing,
			}[refused.Status],
			exitFailure,
		)
	}
	return exitFailure
}

// statusError is the exit status of a command that has already printed its result.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

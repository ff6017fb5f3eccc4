package console

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUsage means that the command line is invalid. The command then ends with a status of its own.
var ErrUsage = errors.New("usage")

// Usagef is fmt.Errorf for an error that wraps ErrUsage.
func Usagef(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUsage}, args...)...)
}

// ErrorText returns the message of an error for people, without the prefix of ErrUsage.
func ErrorText(err error) string { return strings.TrimPrefix(err.Error(), ErrUsage.Error()+": ") }

// ErrLinux means that the command needs Linux. It is an ErrUsage.
var ErrLinux = Usagef("processes and their files are traced on Linux: on this system, give a recording with --from FILE, or the page of a program, http://HOST:PORT")

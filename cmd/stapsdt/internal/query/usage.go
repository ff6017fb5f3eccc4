package query

import (
	"errors"
	"fmt"
)

// ErrUsage means that the command line is invalid. The command then ends with a status of its own.
var ErrUsage = errors.New("usage")

// usageError is an ErrUsage whose message is that of another error.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == ErrUsage }
func (e usageError) Unwrap() error      { return e.error }

// Usagef is fmt.Errorf for an error that is an ErrUsage.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ErrLinux means that the command needs Linux. It is an ErrUsage.
var ErrLinux = Usagef("processes and their files are traced on Linux: on this system, give a recording with --from FILE, or the page of a program, http://HOST:PORT")

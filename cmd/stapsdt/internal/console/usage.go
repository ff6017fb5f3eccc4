package console

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUsage means that the command line is wrong. The command then ends with another status.
var ErrUsage = errors.New("usage")

// Usagef is fmt.Errorf for an error that wraps ErrUsage.
func Usagef(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUsage}, args...)...)
}

// ErrorText returns the text of an error for people, without the text of ErrUsage.
func ErrorText(err error) string { return strings.TrimPrefix(err.Error(), ErrUsage.Error()+": ") }

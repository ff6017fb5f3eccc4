// Package usage tells errors of the command line from other ones: the command ends with another
// status, and docs say what it means.
package usage

import (
	"errors"
	"fmt"
	"strings"
)

// Err means that the command line is wrong.
var Err = errors.New("usage")

// Errorf is fmt.Errorf for an error that is an Err.
func Errorf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{Err}, args...)...)
}

// Text returns the text of an error for people: that of Err is not part of it.
func Text(err error) string { return strings.TrimPrefix(err.Error(), Err.Error()+": ") }

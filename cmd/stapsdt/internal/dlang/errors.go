package dlang

import (
	"fmt"
	"strings"
)

// Pos is a place in a file. Lines and columns begin at 1, and a column is a byte.
type Pos struct {
	File         string
	Line, Column int
}

// String returns FILE:LINE:COLUMN.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Error is what is wrong at a place.
type Error struct {
	Pos  Pos
	Text string
}

// Error returns FILE:LINE:COLUMN: TEXT.
func (e *Error) Error() string { return e.Pos.String() + ": " + e.Text }

// Errors is everything that is wrong with a file, in the order of the places where it was
// found. There is at least one.
type Errors []*Error

// Error returns a line for each error.
func (e Errors) Error() string {
	var all []string
	for _, err := range e {
		all = append(all, err.Error())
	}
	return strings.Join(all, "\n")
}

func (e *Errors) add(pos Pos, format string, args ...any) {
	*e = append(*e, &Error{pos, fmt.Sprintf(format, args...)})
}

// err returns the errors, or nil if there are none.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

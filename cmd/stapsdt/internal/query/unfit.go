package query

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// Unfit counts the probes that are left out because they lack something that an expression uses.
type Unfit struct {
	Probes int
	err    error
}

// Add adds a probe that is left out because of an error.
func (u *Unfit) Add(err error) {
	u.Probes++
	u.err = expr.Nearer(u.err, err)
}

// Undefined returns the name that the expression uses and the probe does not have, or "" if the
// error is another one.
func Undefined(err error) string {
	var wrong *expr.Error
	if !errors.As(err, &wrong) {
		return ""
	}
	name, ok := strings.CutPrefix(wrong.Msg, "undefined: ")
	if name, _, _ = strings.Cut(name, ";"); !ok {
		return ""
	}
	return name
}

// Err returns the error for one of the probes, or nil: preferably for a probe that has the names
// of the expression, and otherwise for one that has similar names.
func (u *Unfit) Err() error { return u.err }

// Take returns a line about the probes that were added since the last call, or "". of is the total
// number of probes.
func (u *Unfit) Take(of int) string {
	n, err := u.Probes, u.err
	*u = Unfit{}
	if n == 0 {
		return ""
	}
	have, are := "have", "are"
	if n == 1 {
		have, are = "has", "is"
	}
	line := fmt.Sprintf("%d of %d probes", n, of)
	if name := Undefined(err); name != "" {
		return fmt.Sprintf("%s %s no %s and %s left out", line, have, name, are)
	}
	why, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Sprintf("%s %s left out, one because of this: %s", line, are, why)
}

package query

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// ElapsedName is the variable of the end of an operation for the time since its start, and of the
// return of a function for the time since its call, unless the probe has an argument of this name.
const ElapsedName = "elapsed"

// StartPrefix precedes the name of a start's argument in the name that it has at the end. The name
// alone is enough if the end has no variable of that name.
const StartPrefix = "start."

// UsesStart reports whether names are those of expressions that need the start of an operation.
// Without one of these, a name that the end lacks is an error: the start is not even looked for.
func UsesStart(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, prefixed := OfStart(name)
		return prefixed || name == ElapsedName
	})
}

// Lacking returns those of the names that the end of an operation has from its start, if UsesStart
// reports true: ElapsedName, and the arguments of the start. own reports whether the end itself has
// a variable, and start whether the start has an argument, by its name without StartPrefix.
func Lacking(names []string, own, start func(name string) bool) (lacking []string) {
	if !UsesStart(names) {
		return nil
	}
	for _, name := range names {
		arg, _ := OfStart(name)
		if !own(name) && (name == ElapsedName || start(arg)) {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

// OfStart returns a name without StartPrefix, which may be in a call of str.
func OfStart(name string) (arg string, prefixed bool) {
	const str = "str("
	if arg, prefixed = strings.CutPrefix(name, str+StartPrefix); prefixed {
		return str + arg, true
	}
	return strings.CutPrefix(name, StartPrefix)
}

// ExplainStart completes the error of an expression about what a probe does not have, but may
// have from a start, and returns it.
func ExplainStart(err error, provider, probe string) error {
	var wrong *expr.Error
	if !errors.As(err, &wrong) || Undefined(wrong) == "" {
		return err
	}
	name := Undefined(wrong)
	arg, prefixed := OfStart(name)
	ofStart := prefixed || name == ElapsedName
	operation, isStart := spec.OperationOf(provider, probe)
	why := ""
	switch {
	case operation != "" && !isStart && !ofStart:
		wrong.Msg += "; trace, count, hist and stack have those of the start as " + StartPrefix + "NAME"
		return err
	case !ofStart:
		return err
	case prefixed:
		why = "in trace, count, hist, stack and rules, an end has it whose start is in the same file; latency, top and tree have " + arg
	case operation == "":
		why = "only the end of an operation has it, such as query__end"
	case !isStart:
		why = "there is no start of " + provider + ":" + operation + " beside this end"
	case provider == spec.FunctionProvider:
		why = "only returns have it: give " + provider + ":" + operation + spec.ReturnSuffix
	default:
		why = "only the end of an operation has it, and this is the start"
	}
	wrong.Msg = "undefined: " + name + "; " + why
	return err
}

// StartError returns the error of a name with StartPrefix that is no argument of the start, or nil.
func StartError(names []string, parse func(src string) error) error {
	for _, name := range names {
		if arg, prefixed := OfStart(name); prefixed {
			if err := parse(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

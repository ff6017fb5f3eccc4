package query

import "strings"

// ElapsedName is the variable of the end of an operation for the time since its start, and of the
// return of a function for the time since its call, unless the probe has an argument of this name.
const ElapsedName = "elapsed"

// StartPrefix precedes the name of a start's argument in the name that it has at the end. The name
// alone is enough if the end has no variable of that name.
const StartPrefix = "start."

// Lacking returns those of the names that the end of an operation has from its start: ElapsedName,
// and the arguments of the start. own reports whether the end itself has a variable, and start
// whether the start has an argument, by its name without StartPrefix.
func Lacking(names []string, own, start func(name string) bool) (lacking []string) {
	for _, name := range names {
		arg := strings.TrimPrefix(name, StartPrefix)
		if !own(name) && (name == ElapsedName || start(arg)) {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

package paired

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Starts returns specs of the starts of the operations whose ends some specs select. They may
// select other starts too. It returns none for a spec that selects the starts itself.
func Starts(specs []spec.Spec) (starts []spec.Spec) {
	for _, one := range specs {
		name := startPattern(one.Probe)
		if one.Functions || name == "" {
			continue
		}
		if start, err := spec.Parse(one.Provider + ":" + name); err == nil {
			starts = append(starts, start)
		}
	}
	return starts
}

// startPattern returns a pattern of the starts of the operations whose ends a pattern matches, or
// "" if the pattern matches these starts, or no ends.
func startPattern(pattern string) string {
	const suffix, wildcards = spec.StartSuffix, "*?[\\"
	if operation, isStart := spec.NameOf(pattern); operation != "" {
		if isStart {
			return ""
		}
		return operation + suffix
	}
	if !strings.ContainsAny(pattern, wildcards) {
		return ""
	}
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	if !isPrefix || strings.ContainsAny(prefix, wildcards) {
		return "*" + suffix
	}
	// prefix* matches the start of each operation with the prefix. The prefix may also reach into
	// the suffix of an end.
	at := strings.LastIndex(prefix, "__")
	if at < 0 {
		return ""
	}
	for _, end := range spec.EndSuffixes {
		if tail := prefix[at:]; len(tail) > 2 && strings.HasPrefix(end, tail) {
			return prefix[:at] + suffix
		}
	}
	return ""
}

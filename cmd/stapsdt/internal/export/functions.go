//go:build linux

package export

import (
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// lacking remembers which files lack a function that a rule selects. Any user can make such files.
type lacking struct {
	known map[lack]bool
	said  int       // messages since the time since
	since time.Time // the beginning of a minute
}

// lack is a version of a file that lacks functions: of a rule with a label, or of a pattern.
type lack struct {
	file           target.Version
	label, pattern string
}

const (
	// maxLacks is the maximum number of entries. Forgotten ones are counted again.
	maxLacks = 8192
	// maxLacksSaid is the maximum number of messages in a minute.
	maxLacksSaid = 20
)

// add adds an entry, and reports whether it is new.
func (l *lacking) add(of lack) bool {
	if l.known[of] {
		return false
	}
	if l.known == nil || len(l.known) >= maxLacks {
		l.known = map[lack]bool{}
	}
	l.known[of] = true
	return true
}

// says reports whether there is room for another message in this minute.
func (l *lacking) says() bool {
	if now := time.Now(); now.Sub(l.since) >= time.Minute {
		l.since, l.said = now, 0
	}
	l.said++
	return l.said <= maxLacksSaid
}

// selectFunctions makes the finder look for the functions of the rules in force.
func (e *exporter) selectFunctions() {
	var specs []spec.Spec
	for _, r := range e.rules() {
		for _, s := range r.Common().Selection.Selector.FunctionSpecs() {
			if !slices.Contains(specs, s) {
				specs = append(specs, s)
			}
		}
	}
	e.lacking.known = nil // a new rule counts the known files too
	e.finder.SelectFunctions(specs)
}

// executables returns the patterns of the executables whose functions rules select.
func (e *exporter) executables() (all []string) {
	for _, r := range e.rules() {
		for _, s := range r.Common().Selection.Selector.FunctionSpecs() {
			if !slices.Contains(all, s.Executable) {
				all = append(all, s.Executable)
			}
		}
	}
	return all
}

// lacks counts a file in which a spec selects no function, once for each rule, and reports it
// once for its calls and its returns.
func (e *exporter) lacks(f *target.File, s spec.Spec, reason error) {
	for _, r := range e.rules() {
		base := r.Common()
		selects := slices.Contains(base.Selection.Selector.FunctionSpecs(), s)
		if selects && e.lacking.add(lack{file: f.Version(), label: base.Label}) {
			base.Lacks.Add(1)
		}
	}
	if e.lacking.add(lack{file: f.Version(), pattern: string(s.Pattern)}) && e.lacking.says() {
		e.Warn("%s has nothing for %v: %v", f.Path, s, reason)
	}
}

//go:build linux

package run

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// warnWaits warns that nothing is traced yet.
func (r *Run) warnWaits() {
	hint := r.Selector.Nearest()
	for spec, err := range r.missingFunctions() {
		if hint = fmt.Sprintf(": %v", err); r.Command != nil {
			hint += fmt.Sprintf("; to miss no call in a program that the COMMAND starts, name its file, as in FILE:%v", spec)
		}
		break
	}
	r.warnWait(cmp.Or(r.Selector.Missing(), "the selected probes"), hint)
}

func (r *Run) warnWait(missing, hint string) {
	r.Warn("no %s has %s yet; waiting for one%s", r.place(), missing, hint)
}

// place names where probes are searched for.
func (r *Run) place() string {
	switch {
	case len(r.Names) > 0:
		return "process called " + strings.Join(r.Names, " or ")
	case len(r.Pods) > 0:
		return fmt.Sprintf("process of %s", r.pods)
	case !r.engine.Scans():
		return "file"
	}
	return "process"
}

// warnMissing warns of the specs that have no probe while others have some. waits means that they
// may have one later. A missing function is an error, or is reported at the end.
func (r *Run) warnMissing(waits bool) {
	switch missing := r.Selector.MissingProbes(); {
	case missing == "":
	case waits:
		r.warnWait(missing, r.Selector.Nearest())
	default:
		r.Warn("no file of the process has %s%s", missing, r.Selector.Nearest())
	}
}

// warnLacking warns of the named processes that use no file with a selected probe, unless some
// processes or files could not be looked at.
func (r *Run) warnLacking(found *probes.Found) {
	if found.Refused != nil || found.Short != nil || found.PutOff != nil || r.Command != nil {
		return
	}
	uses := map[int]bool{}
	for _, all := range found.Uses {
		for _, use := range all {
			uses[use.PID] = true
		}
	}
	r.Console.WarnLacking(r.PIDs, func(pid int) bool { return !proc.FamilyIn(pid, uses) })
}

// unattached returns the error for a run that has never attached to a site, or only to sites of
// processes that had ended, or nil.
func (r *Run) unattached() error {
	if r.cost.exhausted() {
		return nil
	}
	if r.subscription.Attached() {
		if len(r.PIDs) == 0 || r.subscription.Reached() || r.subscription.Missed() == 0 {
			return nil
		}
		return fmt.Errorf("%w: nothing was attached to in time, because each process with a selected probe had ended; name its file, as in FILE:%v", query.ErrNothing, r.Selector.Specs[0])
	}
	const format = "%w: nothing was ever attached to, because no %s had %s"
	missing := r.Selector.Missing()
	if missing == "" {
		return fmt.Errorf("%w: nothing was ever attached to", query.ErrNothing)
	}
	return fmt.Errorf(format, query.ErrNothing, r.place(), missing)
}

// nothing returns the error for processes without a selected probe.
func (r *Run) nothing() error {
	if r.engine != nil && len(r.engine.LeftOut()) > 0 {
		return fmt.Errorf("%w: %w", query.ErrNothing, r.engine.LeftOut()[0])
	}
	missing := cmp.Or(r.Selector.Missing(), "a selected probe that can be traced")
	nearest := r.Selector.Nearest(r.PIDs...)
	return fmt.Errorf("%w: no file of the process has %s%s", query.ErrNothing, missing, nearest)
}

// missingFunctions yields the specs of functions that have none yet, with the reasons. It yields a
// reason once.
func (r *Run) missingFunctions() iter.Seq2[*probes.Spec, error] {
	return func(yield func(*probes.Spec, error) bool) {
		for _, spec := range r.Selector.Specs {
			err := r.finder.FunctionProblem(spec.Spec)
			if err == nil || spec.First != nil || slices.Contains(r.reasons, err.Error()) {
				continue
			}
			r.reasons = append(r.reasons, err.Error())
			if !yield(spec, err) {
				return
			}
		}
	}
}

// noFunction returns an error if a function spec selects no function. It only warns of a function
// that is inlined everywhere, if other specs have probes.
func (r *Run) noFunction(finder *target.Finder) error {
	found := func(s *probes.Spec) bool { return s.First != nil }
	others := slices.ContainsFunc(r.Selector.Specs, found)
	for _, spec := range r.Selector.Specs {
		if found(spec) || !spec.Functions {
			continue
		}
		err := finder.FunctionProblem(spec.Spec)
		switch {
		case others && !r.Together && errors.Is(err, function.ErrInlined):
			r.Warn("%v: %v", spec, err)
			continue
		case r.Await || spec.File == "" && (len(r.Names) > 0 || r.mayStart(err)):
			continue
		case err == nil:
			return r.nothing()
		case r.Command != nil && spec.File == "" && !errors.Is(err, function.ErrMany):
			err = fmt.Errorf("%w; to wait for it in the programs that the COMMAND starts, give --wait", err)
		}
		return fmt.Errorf("%w: %v: %w", query.ErrNothing, spec, err)
	}
	return nil
}

// mayStart reports whether a COMMAND may start the program that has a function: its own is no Go
// program, such as a shell. err is the reason why it does not have the function.
func (r *Run) mayStart(err error) bool {
	return r.Command != nil && (err == nil || errors.Is(err, gotable.ErrNoTable))
}

// orNothing returns the error of nothing if the processes can be read and have no selected probe,
// because it is better than err, which may report missing rights. Otherwise it returns err.
func (r *Run) orNothing(err error) error {
	var refused *rights.Error
	if !errors.As(err, &refused) || r.All || len(r.Pods) > 0 || r.Awaits() ||
		r.Selector.NamesFiles() {
		return err
	}
	finder := target.NewFinder()
	defer finder.Close()
	finder.Debug = r.debug
	finder.SelectFunctions(r.Selector.FunctionSpecs())
	found, scanErr := probes.LookAt(&r.Target, finder)
	if scanErr != nil || found.Refused != nil || found.PutOff != nil {
		return err
	}
	has := false
	for _, f := range found.Files {
		has = r.Selector.Find(f) || has
	}
	if has && !(r.Together && r.Selector.Missing() != "") {
		return err
	}
	if err := r.noFunction(finder); err != nil {
		return err
	}
	return r.nothing()
}

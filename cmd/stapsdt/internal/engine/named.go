//go:build linux

package engine

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// named returns the files that specs name.
func (e *Engine) named() (files []*target.File) {
	for _, s := range e.subscriptions {
		files = append(files, s.Selector.Files()...)
	}
	return files
}

// isNamed reports whether a spec names the file, so that it is found without a scan.
func (e *Engine) isNamed(f *target.File) bool { return slices.Contains(e.named(), f) }

// renew drops the files that were changed, and attaches again to the named ones. changed means that a scan is due. waiting means
// that a file is still being written, so that renew has to be called again soon.
func (e *Engine) renew() (changed, waiting bool, err error) {
	for _, f := range e.files {
		if f.Changed() {
			changed = true
			e.drop(f)
		}
	}
	for _, s := range e.subscriptions {
		reopened, problems := s.Selector.Reopen(e.finder.Open)
		for _, err := range problems {
			s.Problem(err)
		}
		if reopened {
			if err := e.attachTo(&probes.Found{}); err != nil {
				return changed, false, err
			}
		}
		waiting = waiting || s.Selector.Closed()
	}
	return changed, waiting, nil
}

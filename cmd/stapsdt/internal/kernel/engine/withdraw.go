//go:build linux

package engine

import (
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
)

// Withdraw detaches the programs of some probes, by their bpf.Probe.Key. They are not attached
// again, even to files that are found later.
func (e *Engine) Withdraw(keys map[string]bool) error {
	for _, all := range e.loaded {
		for _, p := range all {
			p.withdrawn = p.withdrawn || keys[p.probe.Key()]
		}
	}
	var links Links
	for _, f := range e.files {
		links = append(links, f.withdraw()...)
	}
	return links.Close()
}

// WithdrawFrom detaches some probes of a file, by their bpf.Probe.Key, until Restore. The file must
// have programs of its own for them: see Kernel.
func (e *Engine) WithdrawFrom(of *target.File, keys map[string]bool) error {
	f := e.files[of]
	if f == nil {
		return nil
	}
	if f.withdrawn == nil {
		f.withdrawn = map[string]bool{}
	}
	for key := range keys {
		f.withdrawn[key] = true
	}
	e.mark(f)
	return f.withdraw().Close()
}

// Restore attaches again to probes of a file that WithdrawFrom has detached. A shortage postpones
// this, as for other probes.
func (e *Engine) Restore(of *target.File, keys map[string]bool) error {
	f := e.files[of]
	if f == nil {
		return nil
	}
	for key := range keys {
		delete(f.withdrawn, key)
	}
	e.mark(f)
	for _, a := range f.attachments {
		if done, err := e.attachProcesses(f, a, slices.Collect(maps.Keys(a.links))); !done {
			return err
		}
	}
	return nil
}

// Holds reports whether the engine knows a file with selected probes.
func (e *Engine) Holds(f *target.File) bool { return e.files[f].isHeld() }

func (f *file) isHeld() bool { return f != nil && f.needed() }

// mark marks the programs of a file that are withdrawn.
func (e *Engine) mark(f *file) {
	for _, all := range e.loaded {
		for _, p := range all {
			if p.file == f {
				p.withdrawn = f.withdrawn[p.probe.Key()]
			}
		}
	}
}

// unload closes the programs that serve a file alone, and drops their sections: later versions of
// the file have others.
func (e *Engine) unload(f *file) {
	for key, all := range e.loaded {
		if len(all) == 0 || all[0].file != f {
			continue
		}
		for _, p := range all {
			p.Close()
			for _, s := range p.subscriptions {
				delete(s.sections, p.probe.Key())
			}
		}
		delete(e.loaded, key)
	}
}

// withdraw removes the links of the programs that are withdrawn, and returns them for the caller to
// close.
func (f *file) withdraw() (all Links) {
	for _, a := range f.attachments {
		for i, g := range a.groups {
			if !g.withdrawn {
				continue
			}
			for _, links := range a.links {
				if links[i] != nil {
					all = append(all, links[i])
					links[i] = nil
				}
			}
			g.add(-g.attached)
		}
	}
	return all
}

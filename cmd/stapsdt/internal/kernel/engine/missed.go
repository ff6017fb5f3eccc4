//go:build linux

package engine

import (
	"path"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// mapper is a process that has just mapped files.
type mapper struct {
	selected bool     // whether Processes has it
	images   []string // the providers of its probe images that were not attached to
}

// mappers are such processes, keyed by PID.
type mappers map[int]*mapper

// selected reports whether any of them is selected.
func (all mappers) selected() bool {
	for _, p := range all {
		if p.selected {
			return true
		}
	}
	return false
}

// selected returns a process, or nil if it is not selected.
func (e *Engine) selected(all mappers, pid int) *mapper {
	p := all[pid]
	if p == nil {
		p = &mapper{selected: e.processes.Has(pid)}
		all[pid] = p
	}
	if !p.selected {
		return nil
	}
	return p
}

// see notes the provider of a mapping whose file is not attached to, if its name is that of a probe
// image. The process may end before anything else can be found out.
func (e *Engine) see(p *mapper, pid int, m *proc.Mapping) {
	provider := imageProvider(m.Path)
	if provider == "" || slices.Contains(p.images, provider) {
		return
	}
	if !e.finder.Knows(pid, m) {
		p.images = append(p.images, provider)
	}
}

// imageFile matches the name of a file that package region makes for a provider.
var imageFile = lazyregexp.New(`^(.+)-[0-9a-f]{32}\.so$`)

// imageProvider returns the provider of a probe image with a path, or "" if it is another file. The
// name of memory does not tell whether it is an image.
func imageProvider(name string) string {
	name = strings.TrimSuffix(name, proc.Deleted)
	if memory, ok := strings.CutPrefix(name, "/memfd:"); ok {
		if strings.ContainsAny(memory, ":/") { // no provider has such a name
			return ""
		}
		return memory
	}
	if !strings.HasSuffix(name, ".so") {
		return ""
	}
	if match := imageFile().FindStringSubmatch(path.Base(name)); match != nil {
		return match[1]
	}
	return ""
}

// unattached returns the found files that are not attached to.
func (e *Engine) unattached(found *probes.Found) (late []*target.File) {
	for _, f := range found.Files {
		if state := e.files[f]; state != nil && len(state.attachments) == 0 {
			late = append(late, f)
		}
	}
	return late
}

// miss counts a process that has ended in the subscriptions for which it was attached to too late,
// or not at all. late are the files that were not attached to before the process had mapped them.
func (e *Engine) miss(p *mapper, found *probes.Found, late []*target.File) {
	has := func(files []*target.File, s *Subscription) bool {
		return slices.ContainsFunc(files, func(f *target.File) bool {
			return e.files[f] != nil && e.files[f].has[s]
		})
	}
	for _, s := range e.subscriptions {
		unseen := p != nil && slices.ContainsFunc(p.images, s.Selector.SelectsProvider)
		if has(late, s) || unseen && !has(found.Files, s) {
			s.missed.Add(1)
		}
	}
}

// reach notes the subscriptions for which some of the found processes may fire after they were
// attached to. late are the files that were not attached to before.
func (e *Engine) reach(found *probes.Found, late []*target.File) {
	alive := func(u probes.Use) bool { return e.processes.Alive(u.PID) }
	for _, s := range e.subscriptions {
		if s.reached.Load() {
			continue
		}
		reached := func(f *target.File) bool {
			state := e.files[f]
			if state == nil || !state.has[s] || len(state.attachments) == 0 {
				return false
			}
			early := e.isNamed(f) || !slices.Contains(late, f)
			return early || slices.ContainsFunc(found.Uses[f], alive)
		}
		if slices.ContainsFunc(found.Files, reached) || slices.ContainsFunc(e.named(), reached) {
			s.reached.Store(true)
		}
	}
}

// attachedFiles returns the files that are attached to.
func (e *Engine) attachedFiles() map[target.ID]*file {
	all := map[target.ID]*file{}
	for f, state := range e.files {
		if len(state.attachments) > 0 {
			all[f.ID] = state
		}
	}
	return all
}

// mapped notes that a process has mapped a file that is attached to.
func (e *Engine) mapped(f *file, pid int) {
	if e.options.Used != nil {
		e.options.Used(pid)
	}
	for _, s := range e.subscriptions {
		if f.has[s] {
			s.reached.Store(true)
		}
	}
}

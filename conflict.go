package stapsdt

import (
	"container/list"
	"fmt"
	"iter"
	"runtime"
	"slices"
)

// Tracers treat two providers of one name as one. While both are loaded, a probe of the
// same name must therefore have the same arguments in both, and the same argument names if
// it has names in both.

// namesakes are the loaded providers of one name.
type namesakes struct {
	records list.List // in the order of their loads
	// shared holds what the loaded probes of each name have in common. It is nil until a second
	// provider is loaded, because a single one has no conflicts.
	shared map[string]*shared
}

// shared holds the arguments of the loaded probes of one name, so that a load does not compare a
// probe with each of them.
type shared struct {
	args   []ArgType
	names  []string // nil while no probe has names
	owners int      // the number of providers that have the probe
	// renamed reports whether a probe got names while it was loaded, which may differ from names.
	renamed bool
}

// claim adds p, whose lock is held, to the loaded providers and returns nil. If a loaded
// provider of the same name has a probe with the name of one of p's probes, but with other
// arguments or argument names, claim adds nothing and returns that probe.
func (g *registry) claim(p *Provider) (conflict *Probe) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.loaded[p.name]
	if all == nil {
		all = new(namesakes)
	}
	if all.records.Len() > 0 {
		all.compare()
		// If p differs, the probes that it differs from may be unreachable.
		if !all.admits(p) {
			if conflict = all.conflict(p); conflict != nil {
				return conflict
			}
		}
	}
	p.claimed = slices.Clip(p.probes)
	if all.shared != nil {
		all.include(p)
	}
	p.record.loaded = all.records.PushBack(p.record)
	if g.loaded == nil {
		g.loaded = map[string]*namesakes{}
	}
	g.loaded[p.name] = all
	return nil
}

// disclaim undoes a claim.
func (g *registry) disclaim(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := r.provider.Value(); p != nil {
		p.claimed = nil
	}
	if r.loaded == nil {
		return
	}
	all := g.loaded[r.name]
	all.records.Remove(r.loaded)
	for _, probe := range r.shares {
		if s := all.shared[probe]; s.owners > 1 {
			s.owners--
		} else {
			delete(all.shared, probe)
		}
	}
	r.loaded, r.shares = nil, nil
	if all.records.Len() == 0 {
		delete(g.loaded, r.name)
	}
}

// renamed takes note of a loaded probe that has got names.
func (g *registry) renamed(p *Probe) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if all := g.loaded[p.provider.name]; all != nil && all.shared[p.name] != nil {
		all.shared[p.name].renamed = true
	}
}

// admits reports whether no probe of p can differ from a loaded one. The lock of p is held.
func (n *namesakes) admits(p *Provider) bool {
	for name, own := range p.byName {
		s := n.shared[name]
		if s == nil {
			continue
		}
		if s.renamed || !own.agrees(s.args, s.names) {
			return false
		}
	}
	return true
}

// conflict returns the first loaded probe that differs from one of p's, or nil. The lock of p is
// held.
func (n *namesakes) conflict(p *Provider) *Probe {
	for other := range n.reachable() {
		for _, probe := range other.claimed {
			own := p.byName[probe.name]
			if own != nil && !own.agrees(probe.args, probe.argNames()) {
				return probe
			}
		}
	}
	return nil
}

// include adds the claimed probes of p to n.shared.
func (n *namesakes) include(p *Provider) {
	for _, probe := range p.claimed {
		if probe.first != probe {
			continue // its name is included
		}
		s := n.shared[probe.name]
		if s == nil {
			s = new(shared)
			n.shared[probe.name] = s
		}
		s.args, s.owners = probe.args, s.owners+1
		if names := probe.argNames(); names != nil {
			s.names = names
		}
		p.record.shares = append(p.record.shares, probe.name)
	}
}

// compare fills n.shared.
func (n *namesakes) compare() {
	if n.shared != nil {
		return
	}
	n.shared = map[string]*shared{}
	for p := range n.reachable() {
		n.include(p)
	}
}

// reachable returns the providers, in the order of their loads.
func (n *namesakes) reachable() iter.Seq[*Provider] {
	return func(yield func(*Provider) bool) {
		for e := n.records.Front(); e != nil; e = e.Next() {
			if p := e.Value.(*record).provider.Value(); p != nil && !yield(p) {
				return
			}
		}
	}
}

// agrees reports whether p can be loaded at the same time as a probe of the same name with these
// arguments.
func (p *Probe) agrees(args []ArgType, names []string) bool {
	return slices.Equal(p.args, args) && compatibleNames(p.argNames(), names)
}

// conflictError returns the error for a provider that conflicts with a loaded probe.
func (p *Provider) conflictError(probe *Probe) error {
	own := p.byName[probe.name]
	return p.fail("load", probe.name, fmt.Errorf("%w: the probe has the arguments %v, but %v in the loaded provider of the same name defined at %s",
		ErrConflict, own.signature(probe), probe.signature(own), probe.provider.definedAt()))
}

// caller returns the program counter of the call of NewProvider, which calls it.
func caller() uintptr {
	var pcs [1]uintptr
	runtime.Callers(3, pcs[:]) // skip Callers, caller and NewProvider
	return pcs[0]
}

// definedAt returns the file and the line of the call of NewProvider.
func (p *Provider) definedAt() string {
	frame, _ := runtime.CallersFrames([]uintptr{p.caller}).Next()
	return fmt.Sprintf("%s:%d", printable(frame.File), frame.Line)
}

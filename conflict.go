package stapsdt

import (
	"fmt"
	"runtime"
	"slices"
)

// Tracers treat two providers of one name as one. While both are loaded, a probe of the
// same name must therefore have the same arguments in both, and the same argument names if
// it has names in both.

// claim adds p, whose lock is held, to the loaded providers and returns nil. If a loaded
// provider of the same name has a probe with the name of one of p's probes, but with other
// arguments or argument names, claim adds nothing and returns that probe.
func (g *registry) claim(p *Provider) (conflict *Probe) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.loaded[p.name] {
		other := r.provider.Value()
		if other == nil {
			continue // it is unreachable
		}
		for _, probe := range other.claimed {
			if own := p.byName[probe.name]; own != nil && !own.agrees(probe) {
				return probe
			}
		}
	}
	p.claimed = slices.Clip(p.probes)
	if g.loaded == nil {
		g.loaded = map[string][]*record{}
	}
	g.loaded[p.name] = append(g.loaded[p.name], p.record)
	return nil
}

// disclaim undoes a claim.
func (g *registry) disclaim(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := r.provider.Value(); p != nil {
		p.claimed = nil
	}
	records := g.loaded[r.name]
	i := slices.Index(records, r)
	switch {
	case i < 0:
	case len(records) == 1:
		delete(g.loaded, r.name)
	default:
		g.loaded[r.name] = slices.Delete(records, i, i+1)
	}
}

// agrees reports whether two probes of one name can be loaded at the same time.
func (p *Probe) agrees(other *Probe) bool {
	return slices.Equal(p.args, other.args) && compatibleNames(p.argNames(), other.argNames())
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

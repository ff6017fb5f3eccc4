package stapsdt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/argname"
)

// ArgInfo describes an argument of a probe.
type ArgInfo struct {
	Name string // "" if it has none: see NameArgs
	Type ArgType
	Kind Kind // the kind of its Value in an Event
}

// Args describes the probe's arguments. Either all of them have names or none.
func (p *Probe) Args() []ArgInfo {
	names, all := p.argNames(), make([]ArgInfo, min(len(p.args), MaxArgs))
	for i := range all {
		if all[i] = (ArgInfo{Type: p.args[i], Kind: p.kinds[i]}); names != nil {
			all[i].Name = names[i]
		}
	}
	return all
}

// argNames returns the names of the arguments, or nil if they have none.
func (p *Probe) argNames() []string {
	if p.first == nil {
		return nil
	}
	if names := p.first.names.Load(); names != nil {
		return *names
	}
	return nil
}

// NameArgs names the arguments of a probe, in their order. The other probes of the same name and
// provider have the same names. The image has them from the next Load on.
//
// A name is a C identifier of at most 32 ASCII letters, digits and underscores, and neither
// a keyword of C or bpftrace nor a name that perf's events reserve, such as common_pid.
//
// NameArgs fails with ErrArgCount if the number of names differs from the number of arguments,
// with ErrName if a name is invalid or occurs twice, with ErrConflict if a name differs from
// the name that the argument already has, with ErrLoaded while the provider is loaded with the
// probe, and with ErrClosed. The names then stay as they were. NameArgs also fails for a
// probe that AddProbe has rejected.
func (p *Probe) NameArgs(names ...string) error {
	provider := p.provider
	if provider.zero() {
		return provider.fail("define", p.name, errZero)
	}
	provider.mu.Lock()
	defer provider.mu.Unlock()
	return provider.setArgNames(p, names)
}

// setArgNames is NameArgs, with the lock held.
func (p *Provider) setArgNames(probe *Probe, names []string) error {
	if p.closed {
		return p.fail("define", probe.name, ErrClosed)
	}
	if probe.first == nil {
		return p.fail("define", probe.name, errors.New("the provider does not have this probe"))
	}
	if err := p.checkArgNames(probe.name, probe.args, names); err != nil {
		return err
	}
	if slices.Equal(names, probe.argNames()) {
		return nil
	}
	if int(probe.index) < p.live {
		return p.fail("define", probe.name, ErrLoaded)
	}
	probe.first.setNames(names)
	return nil
}

// setNames names the arguments of all sites of the probe, of which p is the first. The names never
// change once there are some. The provider's lock is held.
func (p *Probe) setNames(names []string) {
	names = slices.Clone(names)
	p.names.Store(&names)
	if int(p.index) < p.provider.live {
		providers.renamed(p)
	}
}

// checkArgNames returns an error if the names of a probe's arguments are invalid.
func (p *Provider) checkArgNames(probe string, args []ArgType, names []string) error {
	first := p.byName[probe]
	if first != nil && names != nil && slices.Equal(names, first.argNames()) {
		return nil // as most sites of a probe have them
	}
	if len(names) != len(args) {
		return p.fail("define", probe, fmt.Errorf("%w: got %d names, want %d", ErrArgCount, len(names), len(args)))
	}
	for i, name := range names {
		why := argname.Fault(name)
		if why == "" && slices.Contains(names[:i], name) {
			why = "occurs twice"
		}
		if why != "" {
			return p.fail("define", probe, fmt.Errorf("%w: the name %q of argument %d %s", ErrName, name, i, why))
		}
	}
	if first != nil && !compatibleNames(first.argNames(), names) {
		return p.fail("define", probe, fmt.Errorf("%w: a probe of this name has the argument names %v", ErrConflict, first.argNames()))
	}
	return nil
}

// compatibleNames reports whether probes with these names of arguments can have the same name.
func compatibleNames(a, b []string) bool { return a == nil || b == nil || slices.Equal(a, b) }

// signature returns the arguments for an error about a difference from other's arguments:
// their types or, if these are equal, their names.
func (p *Probe) signature(other *Probe) any {
	if slices.Equal(p.args, other.args) {
		return p.argNames()
	}
	return p.args
}

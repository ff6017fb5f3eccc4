// Package stapsdt creates USDT probes (SystemTap SDT trace points) at run time.
package stapsdt

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of a provider or a probe, in bytes.
const MaxName = 255

// Provider is a set of probes that are loaded together, and the first half of
// their names. Its methods are safe for concurrent use. Load, Unload and Close
// wait for each other; nothing ever waits for a probe that fires.
type Provider struct {
	name string
	opts options

	mu     sync.Mutex
	probes []*Probe
	byName map[string]*Probe // the first of each name
	err    error             // the first definition that failed
	loaded bool
	closed bool
	path   string

	// image is what is loaded. It has no way back to the provider, so that
	// it can be given back when the provider is garbage.
	image *loader
}

// NewProvider defines a provider. Nothing is loaded or allocated outside the
// program's own memory until Load, which also reports a bad name: 1 to MaxName
// bytes of UTF-8 without control characters, spaces and any of : * ? / " , { }.
func NewProvider(name string, opts ...Option) *Provider {
	p := &Provider{name: name, byName: map[string]*Probe{}, image: new(loader)}
	for _, o := range opts {
		o(&p.opts)
	}
	p.err = p.checkName(name, "")
	runtime.AddCleanup(p, (*loader).release, p.image)
	return p
}

// Name returns the provider's name.
func (p *Provider) Name() string { return p.name }

// Path returns where a tracer finds the loaded image: a file, or /proc/PID/fd/N
// when it is in memory. It is "" while the provider is not loaded.
func (p *Provider) Path() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.path
}

// Loaded reports whether the provider is loaded.
func (p *Provider) Loaded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded
}

// Probes returns the provider's probes in the order they were defined in.
func (p *Provider) Probes() []*Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.probes)
}

// AddProbe defines a probe with up to MaxArgs arguments. A name may be defined
// again with the same arguments: that is a second trace point of one probe, and a
// tracer attaches to both.
//
// It fails with ErrLoaded, ErrClosed, ErrName, ErrTooManyArgs or ErrArgType. The
// probe that it returns then is not part of the provider, and can be fired
// without effect, so that a program need not look at the error.
func (p *Provider) AddProbe(name string, args ...ArgType) (*Probe, error) {
	probe := new(Probe)
	return probe, p.add(probe, name, slices.Clone(args))
}

// add makes probe one of the provider's.
func (p *Provider) add(probe *Probe, name string, args []ArgType) error {
	probe.init(p, name, args)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkProbe(name, args); err != nil {
		return err
	}
	p.probes = append(p.probes, probe)
	if p.byName[name] == nil {
		p.byName[name] = probe
	}
	return nil
}

// checkProbe reports why a probe cannot be added, or nil.
func (p *Provider) checkProbe(name string, args []ArgType) error {
	if p.closed {
		return p.fail("define", name, ErrClosed)
	}
	if p.loaded {
		return p.fail("define", name, ErrLoaded)
	}
	if err := p.checkName(name, name); err != nil {
		return err
	}
	if len(args) > MaxArgs {
		return p.fail("define", name, fmt.Errorf("%w: %d, and %d is the limit", ErrTooManyArgs, len(args), MaxArgs))
	}
	for i, t := range args {
		if !t.valid() {
			return p.fail("define", name, fmt.Errorf("%w: argument %d is %v", ErrArgType, i, t))
		}
	}
	if first := p.byName[name]; first != nil && !slices.Equal(first.args, args) {
		return p.fail("define", name, fmt.Errorf("%w: it is taken by a probe with the arguments %v", ErrName, first.args))
	}
	return nil
}

// checkName reports what is wrong with the name of the provider, or of a probe
// of it.
func (p *Provider) checkName(name, probe string) error {
	switch {
	case name == "":
		return p.fail("define", probe, fmt.Errorf("%w: it is empty", ErrName))
	case len(name) > MaxName:
		return p.fail("define", probe, fmt.Errorf("%w: %d bytes, and %d is the limit", ErrName, len(name), MaxName))
	case !utf8.ValidString(name):
		return p.fail("define", probe, fmt.Errorf("%w: it is not UTF-8", ErrName))
	}
	for _, r := range name {
		switch r {
		case ' ', ':', '*', '?', '/', '"', ',', '{', '}':
		default:
			if unicode.IsPrint(r) {
				continue
			}
		}
		return p.fail("define", probe, fmt.Errorf("%w: %q is not allowed in it", ErrName, r))
	}
	return nil
}

// Load puts the probes where tracers can attach to them. A provider without
// probes can be loaded too. When it fails the probes stay no-ops, and the
// program can go on: a definition's error, ErrLoaded, ErrClosed, ErrUnsupported,
// or an *Error whose Code tells the step, with the reason of each folder that
// was tried.
func (p *Provider) Load() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return p.fail("load", "", ErrClosed)
	case p.loaded:
		return p.fail("load", "", ErrLoaded)
	case p.err != nil:
		return p.err
	}
	path, err := p.image.load(p)
	if err != nil {
		return err
	}
	p.path, p.loaded = path, true
	return nil
}

// Unload takes the probes back from tracers. They are no-ops from then on, also
// for goroutines that fire at this moment; what they have begun to fire, a tracer
// still sees. Probes can be added afterwards, and the provider can be loaded
// again. Unload of a provider that is not loaded does nothing.
//
// While a tracer is attached, Unload stops the world for an instant, as the
// garbage collector does.
//
// When the mapping cannot be replaced by an empty one, it is kept, which costs
// its memory, and an *Error of Code SharedLibraryClose says so. The provider is
// unloaded all the same.
func (p *Provider) Unload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unload()
}

func (p *Provider) unload() error {
	if !p.loaded {
		return nil
	}
	traced := false
	for _, probe := range p.probes {
		traced = traced || probe.on()
		probe.move(&noSite[0])
	}
	p.path, p.loaded = "", false
	if err := p.image.unload(traced); err != nil {
		return &Error{Op: "unload", Provider: p.name, Code: SharedLibraryClose, Err: err}
	}
	return nil
}

// Close unloads the provider for good. Its probes stay no-ops. Closing it again
// does nothing.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	err := p.unload()
	p.closed = true
	p.image.close()
	return err
}

// fail returns an *Error that no step of loading has a code for.
func (p *Provider) fail(op, probe string, err error) error {
	return &Error{Op: op, Provider: p.name, Probe: probe, Code: NoError, Err: err}
}

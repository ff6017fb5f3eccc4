package stapsdt

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"
	"weak"

	"github.com/go-stapsdt/stapsdt/internal/tracer"
	"github.com/go-stapsdt/stapsdt/internal/words"
)

// MaxName is the maximum length of the name of a provider or a probe, in bytes.
const MaxName = 255

// Provider is a set of probes that are loaded together. Its name is the first half of their
// names. Create it with NewProvider: the zero Provider and a nil one have no name,
// accept no probes, and cannot be loaded. Its methods are safe for concurrent use.
// They wait for each other, even while Load writes a file, but never for a fire.
type Provider struct {
	misfires words.Misfires // the first field: see words.MisfiresOf

	name   string
	opts   options
	caller uintptr // where NewProvider was called
	record *record

	mu     sync.Mutex
	probes []*Probe
	live   int               // the number of probes that are in the image: the first ones
	byName map[string]*Probe // the first probe of each name
	err    error             // the first definition that failed
	loaded bool
	closed bool

	// observers is replaced and never changed, and nil if there are none. It is written with
	// the lock held.
	observers atomic.Pointer[observers]

	// claimed are the probes that the loaded image has, or will have. It belongs
	// to the registry, whose lock guards it.
	claimed []*Probe

	// loader holds the provider's resources outside the Go heap. It does not refer to the
	// provider, so that it can be released when the provider is unreachable.
	loader *loader
}

// The constant is not negative, or else this does not compile.
const _ = -unsafe.Offsetof(Provider{}.misfires)

// NewProvider defines a provider. Until Load, tracers do not see it, and nothing is allocated
// outside the Go heap. If the name is invalid, Load reports it with ErrName.
//
// The name of a provider or a probe is 1 to MaxName bytes of UTF-8, without control
// characters, spaces, and any of : * ? / " , { }. Every tracer accepts ASCII letters,
// digits and underscores; bpftrace also accepts dashes and dots.
func NewProvider(name string, opts ...Option) *Provider {
	p := &Provider{name: name, caller: caller(), byName: map[string]*Probe{}, loader: new(loader)}
	for _, o := range opts {
		o(&p.opts)
	}
	if err := checkName(name); err != nil {
		p.err = p.fail("define", "", err)
	}
	p.record = &record{provider: weak.Make(p), name: name}
	runtime.AddCleanup(p, (*loader).release, p.loader)
	runtime.AddCleanup(p, providers.forget, p.record)
	providers.define(p.record) // LoadAll finds it from now on
	providers.tell(p)
	return p
}

// Name returns the provider's name.
func (p *Provider) Name() string {
	if p == nil {
		return ""
	}
	return p.name
}

// zero reports whether p is nil or the zero Provider.
func (p *Provider) zero() bool { return p == nil || p.loader == nil }

// Path returns the path at which a tracer finds the loaded image: a file, or /proc/PID/fd/N
// if it is in memory. PID is this process's PID in the program's /proc. If the program has
// closed the descriptor, as daemons do, or has reused its number for another file, Path
// returns /proc/PID/map_files/START-END, the mapping itself, which root can open.
//
// Path returns "" while the provider is not loaded. It also returns "" for an image in
// memory if /proc belongs to another PID namespace, which does not show this process.
func (p *Provider) Path() string {
	if p.zero() {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return ""
	}
	return p.loader.path()
}

// Loaded reports whether the provider is loaded.
func (p *Provider) Loaded() bool {
	if p.zero() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded
}

// Probes returns the provider's probes in the order of their definition, including those
// that become part of it at the next Load.
func (p *Provider) Probes() []*Probe {
	if p.zero() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.probes)
}

// AddProbe defines a probe with up to MaxArgs arguments. A name may be defined again
// with the same arguments: this adds a second site of the probe, and tracers attach to
// both. A probe that is defined while its provider is loaded becomes part of it at the
// next Load.
//
// Tracers call the arguments arg0, arg1 and so on until [Probe.NameArgs] names them.
//
// AddProbe fails with ErrClosed, ErrName, ErrConflict, ErrTooManyArgs or ErrArgType. It then
// returns a probe that does not belong to the provider and has no effect when fired. Thus a program
// that ignores the error is safe: if a name made at run time is invalid, only that probe's events
// are lost.
func (p *Provider) AddProbe(name string, args ...ArgType) (*Probe, error) {
	probe := new(Probe)
	return probe, p.add(probe, name, slices.Clone(args), nil)
}

// add adds probe to the provider, with the names of its arguments or with none.
func (p *Provider) add(probe *Probe, name string, args []ArgType, names []string) error {
	probe.init(p, name, args)
	if p.zero() {
		return p.fail("define", name, errZero)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkProbe(name, args); err != nil {
		return err
	}
	if len(names) > 0 {
		if err := p.checkArgNames(name, args, names); err != nil {
			return err
		}
	}
	probe.index = int32(len(p.probes))
	p.probes = append(p.probes, probe)
	if probe.first = p.byName[name]; probe.first == nil {
		p.byName[name], probe.first = probe, probe
	}
	if probe.first.types == nil { // of a site that AddProbe has made
		probe.first.types = probe.types
	}
	if len(names) > 0 && probe.first.argNames() == nil {
		probe.first.setNames(names)
	}
	if o := p.observers.Load(); o != nil {
		probe.watch(o)
	}
	return nil
}

// checkProbe returns an error if a probe cannot be added.
func (p *Provider) checkProbe(name string, args []ArgType) error {
	if p.closed {
		return p.fail("define", name, ErrClosed)
	}
	if err := checkName(name); err != nil {
		return p.fail("define", name, err)
	}
	if len(args) > MaxArgs {
		return p.fail("define", name, fmt.Errorf("%w: got %d, want at most %d", ErrTooManyArgs, len(args), MaxArgs))
	}
	for i, t := range args {
		if !t.valid() {
			return p.fail("define", name, fmt.Errorf("%w: argument %d is %v", ErrArgType, i, t))
		}
	}
	if first := p.byName[name]; first != nil && !slices.Equal(first.args, args) {
		return p.fail("define", name, fmt.Errorf("%w: a probe of this name has the arguments %v", ErrConflict, first.args))
	}
	return nil
}

// checkName returns an error if the name of a provider or a probe is invalid.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: the name has %d bytes, want at most %d", ErrName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the name is not UTF-8", ErrName)
	}
	for _, r := range name {
		switch r {
		case ' ', ':', '*', '?', '/', '"', ',', '{', '}':
		default:
			if strconv.IsPrint(r) { // as unicode.IsPrint, without another table
				continue
			}
		}
		return fmt.Errorf("%w: the name contains %q", ErrName, r)
	}
	return nil
}

// Load makes the probes visible to tracers. A provider without probes can be loaded
// too. If Load fails, the probes stay no-ops and the program can continue.
//
// Load fails with
//
//   - ErrClosed, ErrLoaded or ErrUnsupported;
//   - the error of a typed probe's definition, which every Load then returns;
//   - ErrConflict, while another provider of the same name is loaded and has a probe of the
//     same name with other arguments or argument names, because a tracer takes the two for one;
//   - ErrPlace or ErrMap, with the reason for each place tried;
//   - otherwise an *Error without a sentinel.
//
// If stapsdt has started the program (stapsdt trace SPEC -- COMMAND) and SPEC may select probes of
// the provider, Load waits until stapsdt has attached to them, so that it sees the first event, for
// at most a second. stapsdt requests this by the environment variable STAPSDT_TRACER. A program
// that gained rights when it was started ignores it.
func (p *Provider) Load() error {
	if p.zero() {
		return p.fail("load", "", errZero)
	}
	err := p.lockAndLoad()
	if err == nil {
		tracer.Await(p.name)
	}
	return err
}

func (p *Provider) lockAndLoad() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.load()
}

func (p *Provider) load() error {
	switch {
	case p.closed:
		return p.fail("load", "", ErrClosed)
	case p.loaded:
		return p.fail("load", "", ErrLoaded)
	case p.err != nil:
		return p.err
	}
	if conflict := providers.claim(p); conflict != nil {
		return p.conflictError(conflict)
	}
	if err := p.loader.load(p); err != nil {
		providers.disclaim(p.record)
		return err
	}
	p.loaded, p.live = true, len(p.probes)
	providers.leave(p.record)
	return nil
}

// Unload hides the probes from tracers. They become no-ops, even for goroutines that
// are firing at that moment; tracers still see the events that have begun. The provider
// can be reloaded. Unload does nothing if the provider is not loaded.
//
// While a tracer is attached, Unload briefly stops the world, as the garbage collector
// does. On kernels whose sites are ten-byte nops it always does; the table of kernels in
// docs/kernels.md lists them.
//
// If the mapping cannot be replaced by an empty one, it is kept, which only costs
// memory, and Unload returns an error that wraps ErrUnload. The provider is unloaded
// nevertheless. This is the only error.
func (p *Provider) Unload() error {
	if p.zero() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unload()
}

func (p *Provider) unload() error {
	if !p.loaded {
		return nil
	}
	sites := make([]*byte, p.live)
	for i, probe := range p.probes[:p.live] {
		sites[i] = probe.move(&noSite[0])
	}
	// If a tracer attaches after this, no goroutine is on its way to a site.
	traced := slices.ContainsFunc(sites, patched)
	p.loaded, p.live = false, 0
	defer providers.disclaim(p.record)
	if err := p.loader.unload(traced); err != nil {
		return &Error{
			Op: "unload", Provider: p.name, Code: SharedLibraryClose, Err: fmt.Errorf("%w: %w", ErrUnload, err),
		}
	}
	return nil
}

// Close unloads the provider for good, and ends all observations and recordings of it. Its probes
// are no-ops from then on; Load and AddProbe fail with ErrClosed. Close returns the same error as
// Unload, and the provider is closed nevertheless. Closing it again does nothing.
func (p *Provider) Close() error {
	if p.zero() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	err := p.unload()
	p.closed = true
	p.setObservers(nil)
	providers.closed(p.record)
	p.loader.close()
	return err
}

// fail returns an *Error without a Code.
func (p *Provider) fail(op, probe string, err error) error {
	return &Error{Op: op, Provider: p.Name(), Probe: probe, Err: err}
}

// Package stapsdt creates USDT probes (SystemTap SDT trace points) at run time,
// which every Linux tracer can attach to, and which cost next to nothing while
// none does.
//
//	var app = stapsdt.NewProvider("myapp")
//	var request = stapsdt.NewProbe2[string, int32](app, "request__done")
//
//	func main() {
//		if err := app.Load(); err != nil {
//			log.Print(err) // the probes stay no-ops
//		}
//		defer app.Close()
//		...
//		request.Fire(r.URL.Path, 200)
//	}
//
//	# bpftrace -p $(pgrep myapp) -e 'usdt:*:myapp:request__done { printf("%s %d\n", str(arg0), arg1); }'
//	/index.html 200
//
// # Lifecycle
//
// A [Provider] is a name and a list of probes. Define them with [NewProvider] and
// [NewProbe0] to [NewProbe6], as package variables or later, or with
// [Provider.AddProbe] when their arguments are known at run time only. What is
// wrong with the definition of a typed probe is reported by [Provider.Load], which
// puts the probes where tracers find them. [Provider.Unload] takes them back; then
// probes can be added, and the provider can be loaded again. [Provider.Close]
// unloads it for good. A provider that is garbage, with all its probes, is given
// back too.
//
// # Arguments
//
// A probe has up to [MaxArgs] arguments; a typed one up to six, which the compiler
// checks. A tracer sees
//
//	Go                                note   bpftrace
//	bool, uint8                       1@     arg0
//	int8                              -1@    arg0, signed
//	uint16, int16                     2@ -2@
//	uint32, int32                     4@ -4@
//	uint64, uint, uintptr             8@
//	int64, int                        -8@
//	unsafe.Pointer                    8@     *(struct name *)arg0, and what it points to
//	string, []byte                    8@     str(arg0)
//
// and types that are built on them. Of a string it can read a copy that is
// NUL-terminated, and cut at [MaxString] bytes, until Fire returns. Text behind a
// NUL is copied too, though str stops there. bpftrace shows 64 bytes of a string,
// unless BPFTRACE_STRLEN says otherwise.
//
// A name may be defined twice, with the same arguments: two places that mean one
// event. Tracers attach to both.
//
// # Concurrency
//
// Everything may be called from any goroutine at any time. Fire, FireFunc and
// Enabled never wait for anything, whatever the provider is doing, and are no-ops
// when it is not loaded. What a tracer does with an event it does while Fire
// waits, as with every uprobe.
//
// # Cost
//
// While no tracer is attached, Fire of a typed probe is inlined: the load of an
// address, the load of a byte, a compare and a branch. Nothing is allocated or
// copied, but the arguments are computed, as those of any call: use FireFunc, or
// ask Enabled, where that is expensive. With a tracer attached it is the kernel's
// price of a uprobe, nothing is allocated either, and strings are copied. On an AMD
// EPYC with Linux 6.18 that was 0.3 to 0.6 ns idle, and 450 ns while bpftrace counts,
// 1.05 times what a C program's call of such a site takes; the README has the
// table.
//
// Enabled is advisory. A tracer may come or go between it and a Fire.
//
// # Tracers
//
// bpftrace, bcc, perf, libbpf and the kernel's own tracefs trace these probes as any
// other; the README has a table of what was tried. None needs to know that they are
// made at run time. The image is a file with a name that is made of its content, in
// the first folder that can be used of: [WithDir]'s, $STAPSDT_DIR,
// $XDG_RUNTIME_DIR/stapsdt and $TMPDIR/stapsdt-UID. Processes that have the same
// probes share it, and a tracer that is attached to the file traces all of them,
// those that start later too. Where no folder can be written to, or mapped
// executable from, the image is in memory (a memfd). [Provider.Path] tells which.
//
// The file stays when the program ends, for the next. So each other set of probes
// leaves one: who adds probes all the time adds many before a Load, or takes
// [WithMemfd].
//
// Tracers that bind to a thread miss goroutines that move to another. gdb sees
// what the dynamic loader has loaded, which these images are not.
//
// # Platforms
//
// Linux on amd64 and arm64, with cgo or without. With cgo the image is built by the
// C library in cstapsdt, with libelf, whose libelf.so.1 must be there where the
// program runs, or it does not start; without (CGO_ENABLED=0, or the build tag
// stapsdt_nocgo) in Go, the same bytes, and nothing is needed.
//
// riscv64, s390x, ppc64le, 386 and arm are experimental: they pass the tests under
// emulation, but nobody has traced them on a kernel of their own (a 386 program
// can be traced by bpftrace on an amd64 kernel). Not every tracer reads arguments
// there: libbpf has no USDT on ppc64le, nor for a program of 32 bits on a 64-bit
// system, and bcc has none on riscv64 and arm. On 386 and arm an int, a uint, a
// uintptr and a pointer have 4 bytes.
//
// Elsewhere everything compiles, Load returns [ErrUnsupported], and the probes are
// no-ops.
//
// # Failure
//
// A probe never takes the program down. When Load fails, the probes stay no-ops.
// Every error is an [*Error], which wraps one of the sentinels, or has the
// [ErrorCode] of the step that failed.
//
// What is mapped is a file, as of every program: whoever may write to it, which is
// its owner and root, can crash those who run it, or have them run other code. That
// is more than the same user can do otherwise where a folder is shared by containers
// that are kept apart: [WithMemfd] keeps the image in memory that is sealed.
//
// Deleting the file harms nobody, but tracers find it no more, until the provider
// is unloaded and loaded again. ($XDG_RUNTIME_DIR is emptied when the user's last session
// ends.)
package stapsdt

import (
	"errors"
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
// their names. It comes from NewProvider; the zero Provider has no name, and takes
// no probes. Its methods are safe for concurrent use. Load, Unload and Close wait
// for each other; nothing ever waits for a probe that fires.
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
// Every tracer takes ASCII letters, digits and underscores; bpftrace takes a dash
// and a dot besides. The same is true of a probe's name.
func NewProvider(name string, opts ...Option) *Provider {
	p := &Provider{name: name, byName: map[string]*Probe{}, image: new(loader)}
	for _, o := range opts {
		if o != nil {
			o(&p.opts)
		}
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
	if p.image == nil {
		return p.checkName(p.name, "") // the zero Provider
	}
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
// was tried. A typed probe with a wrong definition fails every Load; one that was
// defined while the provider was loaded fails the next, with ErrLate, and is left
// out from then on.
func (p *Provider) Load() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.image == nil:
		return p.checkName(p.name, "") // the zero Provider
	case p.closed:
		return p.fail("load", "", ErrClosed)
	case p.loaded:
		return p.fail("load", "", ErrLoaded)
	case p.err != nil:
		err := p.err
		if errors.Is(err, ErrLate) {
			p.err = nil // it came too late for the last load, and is no part of this one
		}
		return err
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
// garbage collector does; and always where the kernel's site is the ten-byte nop
// (the README's table of kernels shows which).
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
	sites := make([]*byte, len(p.probes))
	for i, probe := range p.probes {
		sites[i] = probe.move(&noSite[0])
	}
	// A tracer that comes later than this finds nobody on the way to a site.
	traced := slices.ContainsFunc(sites, patched)
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
	if p.closed || p.image == nil {
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

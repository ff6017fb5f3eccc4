//go:build linux && !stapsdt_noload

package stapsdt

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/world"
)

// loader holds a provider's resources outside the Go heap: the addresses at which its images
// were mapped, the memory of an image that is in no file, and the builder of the images.
// Its methods are called with the provider's lock held.
type loader struct {
	imager imager
	space  region.Space
	home   *region.Home
	nop    *image.Nop // the nop of the live image
	forks  forkGuard
}

// chooseNop returns the nop of the sites. Tests replace it.
var chooseNop = site.ForProcess

// load builds the provider's image, maps it, and publishes its sites.
func (l *loader) load(p *Provider) error {
	arch := image.Host()
	if arch == nil {
		return p.fail("load", "", ErrUnsupported)
	}
	nop, err := chooseNop()
	if err != nil {
		return &Error{Op: "load", Provider: p.name, Code: ELFCreation, Err: err}
	}
	im, err := l.imager.image(p.spec(), arch, nop)
	if err != nil {
		return err
	}
	home, sites, err := region.Load(
		&l.space, im, region.Options{Dir: p.opts.dir, Memfd: p.opts.memfd},
	)
	if err != nil {
		code, sentinel := TmpCreation, ErrPlace
		// errors.As would add 14 KB to every program.
		if failure, ok := err.(*region.Error); ok && failure.Written {
			code, sentinel = SharedLibraryOpen, ErrMap
		}
		return &Error{Op: "load", Provider: p.name, Code: code, Err: fmt.Errorf("%w: %w", sentinel, err)}
	}
	l.home, l.nop = home, nop
	if err := l.forks.guard(l); err != nil {
		_ = l.unload(false) // no probe had an address of the image yet
		return &Error{Op: "load", Provider: p.name, Code: SharedLibraryOpen, Err: err}
	}
	for i, probe := range p.probes {
		probe.move(sites.At(i))
	}
	return nil
}

// path returns the path at which a tracer finds the loaded image.
func (l *loader) path() string { return l.home.Path() }

// unload replaces the image with slots that do nothing. The caller guarantees that no
// probe refers to the image. traced reports whether a tracer is attached to one of the
// sites.
//
// The replacement is safe at any moment. But the tracer would lose the event of a fire
// that is in the kernel at that moment. So if a tracer is attached, unload first lets the
// fires that have begun end: they are in assembly, where a goroutine does not stop, so
// the world stops only after all of them have returned.
//
// With a nop that the kernel may split, unload always does this. A thread can be in the
// middle of the instructions that the kernel made of the nop: a parked slot returns from
// there, but the nop of the next load does not.
func (l *loader) unload(traced bool) error {
	if traced || l.nop.Split {
		world.StopOnce()
	}
	l.forks.release()
	err := l.space.Park()
	l.home.Close()
	l.home = nil
	return err
}

// close releases the resources that only another load would need. The addresses stay mapped,
// because a goroutine may have just loaded one.
func (l *loader) close() { l.imager.release() }

// release releases everything after the provider and its probes have become unreachable.
func (l *loader) release() {
	l.imager.release()
	l.forks.release()
	l.space.Free()
	if l.home != nil {
		l.home.Close()
	}
}

// buildInGo builds an image in Go.
func buildInGo(spec image.Spec, arch *image.Arch, nop *image.Nop) (*image.Image, error) {
	im, err := image.Build(arch, nop, spec, dwarf.Describe(arch, nop, spec))
	if err != nil {
		return nil, &Error{Op: "load", Provider: spec.Provider, Code: ELFCreation, Err: err}
	}
	return im, nil
}

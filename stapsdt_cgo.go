//go:build linux && cgo && !stapsdt_nocgo && !stapsdt_noload

package stapsdt

import (
	"errors"

	"github.com/go-stapsdt/stapsdt/cstapsdt"
	"github.com/go-stapsdt/stapsdt/internal/dwarf"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

// imager builds a provider's images with the C library. It keeps the provider's
// SDTProvider_t and SDTProbe_t from the first load until Close, or until the cleanup after
// the provider has become unreachable. Without libelf, which the C library needs, imager
// builds the images in Go, with the same bytes.
type imager struct {
	c *cstapsdt.Provider
	// added is the number of the provider's probes that the C library has.
	added int
}

// image builds the image that the spec describes. Every spec begins with the probes of the
// previous spec.
func (im *imager) image(spec image.Spec, arch *image.Arch, nop *image.Nop) (*image.Image, error) {
	if !cstapsdt.HasLibelf() {
		return buildInGo(spec, arch, nop)
	}
	built, err := im.build(spec, arch, nop)
	if err != nil {
		e := &Error{Op: "load", Provider: spec.Provider, Code: ELFCreation, Err: err}
		var c *cstapsdt.Error
		if errors.As(err, &c) {
			e.Code = ErrorCode(c.Code + 1) // see ErrorCode
		}
		return nil, e
	}
	return built, nil
}

// build builds the image with the C library.
func (im *imager) build(spec image.Spec, arch *image.Arch, nop *image.Nop) (*image.Image, error) {
	if im.c == nil {
		c, err := cstapsdt.NewProvider(spec.Provider)
		if err != nil {
			return nil, err
		}
		im.c = c
	}
	for _, probe := range spec.Probes[im.added:] {
		if err := im.c.AddProbe(probe.Name, probe.Args); err != nil {
			return nil, err
		}
		im.added++
	}
	debug, err := debugSections(spec, arch, nop)
	if err != nil {
		return nil, err
	}
	bytes, text, err := im.c.Image(arch.Name, nop.Name, debug)
	if err != nil {
		return nil, err
	}
	return &image.Image{
		Bytes: bytes, Text: text, Sites: im.added, Nop: nop,
		Provider: spec.Provider, Builder: "libelf",
	}, nil
}

// debugSections returns the debug sections of the image, or nil if it has none. Go and C
// agree on where the sites are.
func debugSections(spec image.Spec, arch *image.Arch, nop *image.Nop) (*cstapsdt.Debug, error) {
	describe := dwarf.Describe(arch, nop, spec)
	if describe == nil {
		return nil, nil
	}
	text, err := image.Text(arch, spec)
	if err != nil {
		return nil, err
	}
	return &cstapsdt.Debug{Sections: describe(text), Text: text}, nil
}

// release frees the C library's provider.
func (im *imager) release() {
	if im.c != nil {
		im.c.Close()
		*im = imager{}
	}
}

// forkGuard makes the children that C code in this process forks repair the live image.
// They need this if the kernel turns traced nops into calls: see RATIONALE.md, "Why a
// forked child maps its images again".
type forkGuard struct{ c *cstapsdt.ForkGuard }

func (g *forkGuard) guard(l *loader) (err error) {
	if l.nop == &image.Host().Nops[0] {
		return nil // it is traced by a breakpoint, which a child inherits completely
	}
	m := l.space.Live()
	dev, ino, memfd := l.home.File()
	g.c, err = cstapsdt.GuardForks(cstapsdt.Mapping{
		Start: m.Start, Size: m.Size, Offset: m.Offset, Dev: dev, Ino: ino, Path: l.home.Path(),
		Memfd: memfd,
	})
	return err
}

// release ends the repairs. It is called when no probe refers to the image, and before the
// image is replaced.
func (g *forkGuard) release() {
	g.c.Release()
	g.c = nil
}

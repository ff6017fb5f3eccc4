//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && cgo && !stapsdt_nocgo

package stapsdt

import (
	"errors"

	"github.com/go-stapsdt/stapsdt/cstapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

// imager builds a provider's images with the C library, whose SDTProvider_t and
// SDTProbe_t it keeps from the first load on. The provider's Close frees them,
// or its cleanup when it is garbage.
type imager struct {
	c *cstapsdt.Provider
	// added is how many of the provider's probes C has.
	added int
}

// image builds the image of the provider's probes.
func (im *imager) image(p *Provider, arch *image.Arch, kind string) (*image.Image, error) {
	built, err := im.build(p, arch, kind)
	if err != nil {
		e := &Error{Op: "load", Provider: p.name, Code: ElfCreation, Err: err}
		var c *cstapsdt.Error
		if errors.As(err, &c) {
			e.Code = ErrorCode(c.Code)
		}
		return nil, e
	}
	return built, nil
}

func (im *imager) build(p *Provider, arch *image.Arch, kind string) (*image.Image, error) {
	if im.c == nil {
		c, err := cstapsdt.NewProvider(p.name)
		if err != nil {
			return nil, err
		}
		im.c = c
	}
	for _, probe := range p.notes(im.added) {
		if err := im.c.AddProbe(probe.Name, probe.Args); err != nil {
			return nil, err
		}
		im.added++
	}
	bytes, text, err := im.c.Image(arch.Name, kind)
	if err != nil {
		return nil, err
	}
	return &image.Image{Bytes: bytes, Text: text, Sites: im.added}, nil
}

// release frees what C has.
func (im *imager) release() {
	if im.c != nil {
		im.c.Close()
		*im = imager{}
	}
}

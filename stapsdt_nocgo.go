//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && (!cgo || stapsdt_nocgo)

package stapsdt

import "github.com/go-stapsdt/stapsdt/internal/image"

// imager builds a provider's images, in Go.
type imager struct{}

// image builds the image of the provider's probes.
func (*imager) image(p *Provider, arch *image.Arch, kind string) (*image.Image, error) {
	im, err := image.Build(arch, arch.SiteByName(kind), p.name, p.notes(0))
	if err != nil {
		return nil, &Error{Op: "load", Provider: p.name, Code: ElfCreation, Err: err}
	}
	return im, nil
}

// release has nothing to give back.
func (*imager) release() {}

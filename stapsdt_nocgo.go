//go:build linux && (!cgo || stapsdt_nocgo) && !stapsdt_noload

package stapsdt

import "github.com/go-stapsdt/stapsdt/internal/image"

// imager builds a provider's images in Go.
type imager struct{}

// image builds the image that the spec describes.
func (*imager) image(spec image.Spec, arch *image.Arch, nop *image.Nop) (*image.Image, error) {
	return buildInGo(spec, arch, nop)
}

// release does nothing: there is nothing to release.
func (*imager) release() {}

// forkGuard does nothing. A program without cgo forks only to start another program. In a
// program with cgo and the tag stapsdt_nocgo, package site chooses a nop that survives a
// fork.
type forkGuard struct{}

func (forkGuard) guard(*loader) error { return nil }

func (forkGuard) release() {}

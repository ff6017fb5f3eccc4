//go:build !linux || !(amd64 || arm64)

package stapsdt

import "unsafe"

// loader stands in where there are no probes: operating systems other than
// Linux, and architectures that cstapsdt/arch.def has no row for.
type loader struct{}

func (*loader) load(p *Provider) (path string, err error) {
	return "", p.fail("load", "", ErrUnsupported)
}

func (*loader) unload() error { return nil }

func (*loader) close() {}

func (*loader) release() {}

// enter is never reached: no probe is enabled.
func enter(at unsafe.Pointer, words *[MaxArgs]uint64, n int) {}

//go:build !linux || !(386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x)

package stapsdt

// loader stands in where there are no probes: operating systems other than
// Linux, and architectures that cstapsdt/arch.def has no row for.
type loader struct{}

func (*loader) load(p *Provider) (path string, err error) {
	return "", p.fail("load", "", ErrUnsupported)
}

func (*loader) unload(traced bool) error { return nil }

func (*loader) close() {}

func (*loader) release() {}

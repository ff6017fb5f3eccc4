//go:build !linux || stapsdt_noload

package stapsdt

// loader is the loader of operating systems other than Linux, which have no probes.
type loader struct{}

func (*loader) load(p *Provider) error { return p.fail("load", "", ErrUnsupported) }

func (*loader) path() string { return "" }

func (*loader) unload(traced bool) error { return nil }

func (*loader) close() {}

func (*loader) release() {}

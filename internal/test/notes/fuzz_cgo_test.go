//go:build linux && cgo && !stapsdt_nocgo

package notes

import (
	"github.com/go-stapsdt/stapsdt/cstapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

func init() {
	builders["C"] = func(a *image.Arch, s *image.Nop, provider string, probes []image.Probe) (built []byte, text uint64, err error) {
		p, err := cstapsdt.NewProvider(provider)
		if err != nil {
			return nil, 0, err
		}
		defer p.Close()
		for _, probe := range probes {
			if err := p.AddProbe(probe.Name, probe.Args); err != nil {
				return nil, 0, err
			}
		}
		return p.Image(a.Name, s.Name, nil)
	}
	namedBuilders["C"] = func(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) ([]byte, error) {
		p, err := cstapsdt.NewProvider(provider)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		for i, probe := range probes {
			if err := p.AddNamedProbe(probe.Name, names[i], probe.Args); err != nil {
				return nil, err
			}
		}
		built, _, err := p.Image(a.Name, s.Name, nil)
		return built, err
	}
}

//go:build linux && cgo && !stapsdt_nocgo

package notes

import (
	"github.com/go-stapsdt/stapsdt/cstapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

func init() {
	builders["C"] = func(a *image.Arch, s *image.Nop, provider string, probes []image.Probe, names [][]string) ([]byte, uint64, error) {
		p, err := cstapsdt.NewProvider(provider)
		if err != nil {
			return nil, 0, err
		}
		defer p.Close()
		spec, describe := specOf(a, s, provider, probes, names)
		for _, probe := range spec.Probes {
			if err := p.AddProbe(probe.Name, probe.Args); err != nil {
				return nil, 0, err
			}
		}
		if describe == nil {
			return p.Image(a.Name, s.Name, nil)
		}
		text, err := image.Text(a, spec)
		if err != nil {
			return nil, 0, err
		}
		return p.Image(a.Name, s.Name, &cstapsdt.Debug{Sections: describe(text), Text: text})
	}
}

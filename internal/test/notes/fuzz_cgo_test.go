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
		for i, probe := range probes {
			if names == nil {
				err = p.AddProbe(probe.Name, probe.Args)
			} else {
				err = p.AddNamedProbe(probe.Name, names[i], probe.Args)
			}
			if err != nil {
				return nil, 0, err
			}
		}
		return p.Image(a.Name, s.Name, nil)
	}
}

//go:build linux && cgo && !stapsdt_nocgo

package image_test

import (
	"github.com/go-stapsdt/stapsdt/cstapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
)

func init() {
	builders["C"] = func(a *image.Arch, s *image.Site, provider string, probes []image.Probe) (built []byte, text uint64, err error) {
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
		return p.Image(a.Name, s.Name)
	}
}

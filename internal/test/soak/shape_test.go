//go:build linux && (amd64 || arm64)

package soak

import (
	"encoding/binary"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// fire fires a probe with a window, a value and what is derived of it.
type fire func(f *firer, window, value, extra uint64)

// shape is a kind of probe: how it is made and fired, and where the tracer finds the arguments.
type shape struct {
	probe func(p *stapsdt.Provider, name string) (fire, error)
	args  func([]sdt.Arg) bpf.Arguments
}

// texts fires a string of 8 to 263 bytes that begins with the extra word.
var texts = shape{
	probe: func(p *stapsdt.Provider, name string) (fire, error) {
		probe := stapsdt.NewProbe3[uint64, uint64, string](p, name)
		return func(f *firer, window, value, extra uint64) {
			binary.NativeEndian.PutUint64(f.text[:], extra)
			probe.Fire(window, value, string(f.text[:8+int(byte(value))]))
		}, nil
	},
	args: func(a []sdt.Arg) bpf.Arguments {
		return bpf.Arguments{Window: a[0], Value: a[1], Extra: a[2], Text: true}
	},
}

// many fires as many arguments as there can be, of which the last is on the stack.
var many = shape{
	probe: func(p *stapsdt.Provider, name string) (fire, error) {
		types := make([]stapsdt.ArgType, stapsdt.MaxArgs)
		for i := range types {
			types[i] = stapsdt.Uint64
		}
		types[2] = stapsdt.String
		probe, err := p.AddProbe(name, types...)
		return func(f *firer, window, value, extra uint64) {
			if err := probe.Fire(window, value, "text", 3, 4, 5, 6, 7, 8, 9, 10, extra); err != nil {
				f.err = err
			}
		}, err
	},
	args: func(a []sdt.Arg) bpf.Arguments {
		return bpf.Arguments{Window: a[0], Value: a[1], Extra: a[stapsdt.MaxArgs-1]}
	},
}

// load makes a provider of probes of the shape, and loads it.
func (s shape) load(name string, probes int, opts ...stapsdt.Option) (*stapsdt.Provider, []fire, error) {
	p := stapsdt.NewProvider(name, opts...)
	var fires []fire
	for range probes {
		f, err := s.probe(p, "event")
		if err != nil {
			return nil, nil, err
		}
		fires = append(fires, f)
	}
	return p, fires, p.Load()
}

// arguments finds out where the shape's arguments are.
func (s shape) arguments() (bpf.Arguments, error) {
	p, _, err := s.load("shape", 1, stapsdt.WithMemfd())
	if err != nil {
		return bpf.Arguments{}, err
	}
	defer p.Close()
	sites, err := bpf.Sites(p.Path())
	if err != nil {
		return bpf.Arguments{}, err
	}
	return s.args(sites[0].Args), nil
}

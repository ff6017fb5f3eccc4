// Package described describes probes as recordings do.
package described

import (
	"cmp"
	"strconv"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Probe describes a probe of this process. An argument without a name gets the name of its
// position, such as arg0.
func Probe(p *stapsdt.Probe) *recording.Probe {
	r := &recording.Probe{Provider: p.Provider().Name(), Name: p.Name()}
	for i, a := range p.Args() {
		k := kind.Kind(a.Kind)
		name := cmp.Or(a.Name, "arg"+strconv.Itoa(i))
		r.Args = append(r.Args, recording.Arg{Name: name, Kind: k, Type: k.Type(a.Type.Size())})
	}
	return r
}

//go:build linux

package bpf

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"

// Machine is what the kernel can do, and where this process is.
type Machine struct {
	Kernel    Kernel
	Namespace *Namespace
}

// NewMachine finds that out. single says to attach to each site on its own, as before Linux 6.6.
func NewMachine(single bool) (m *Machine, err error) {
	m = &Machine{}
	if m.Kernel, err = Detect(); err != nil {
		return nil, err
	}
	m.Kernel.Multi = m.Kernel.Multi && !single
	m.Namespace, err = CurrentNamespace()
	return m, err
}

// Env returns what the programs of a run share.
func (m *Machine) Env() (env *Env, err error) {
	env = &Env{Kernel: m.Kernel, Namespace: m.Namespace}
	if env.Stats, err = record.NewStats(); err != nil {
		return nil, MapError(err)
	}
	return env, nil
}

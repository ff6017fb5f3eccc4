//go:build linux

package bpf

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"

// Machine describes the kernel, and the PID namespace of this process.
type Machine struct {
	Kernel    Kernel
	Namespace *Namespace
}

// NewMachine detects both. If single is true, programs are attached to each site separately, as before Linux 6.6.
func NewMachine(single bool) (m *Machine, err error) {
	m = &Machine{}
	if m.Kernel, err = Detect(); err != nil {
		return nil, err
	}
	m.Kernel.Multi = m.Kernel.Multi && !single
	m.Namespace, err = CurrentNamespace()
	return m, err
}

// Env creates the data that the programs of a run share.
func (m *Machine) Env() (env *Env, err error) {
	env = &Env{Kernel: m.Kernel, Namespace: m.Namespace}
	if env.Stats, err = layout.NewStats(); err != nil {
		return nil, MapError(err)
	}
	return env, nil
}

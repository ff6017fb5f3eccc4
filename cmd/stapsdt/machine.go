//go:build linux

package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
)

// machine is what the kernel can do, and where this process is.
type machine struct {
	kernel    program.Kernel
	namespace *program.Namespace
}

// newMachine finds that out. single says to attach to each site on its own.
func newMachine(single bool) (m *machine, err error) {
	m = &machine{}
	if m.kernel, err = program.Detect(); err != nil {
		return nil, err
	}
	m.kernel.Multi = m.kernel.Multi && !single
	m.namespace, err = program.CurrentNamespace()
	return m, err
}

// env returns what programs share.
func (m *machine) env() (env *program.Env, err error) {
	env = &program.Env{Kernel: m.kernel, Namespace: m.namespace}
	if env.Stats, err = program.NewStats(); err != nil {
		return nil, program.MapError(err)
	}
	return env, nil
}

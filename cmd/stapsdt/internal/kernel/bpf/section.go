//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/rights"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Section is code that a program runs for one purpose. The sections of a program run one after another and share its
// stack.
type Section struct {
	ins   asm.Instructions
	sleep bool // whether it reads memory of the traced program, and may sleep to do so
	awake bool // whether it must not sleep
}

// section returns the generated section. It expects the context in R1. It ends with two instructions that return; the
// first has labelExit.
func (b *builder) section() (*Section, error) {
	b.beginAttempts()
	ins, err := b.finish()
	if err != nil {
		return nil, err
	}
	return &Section{ins: ins, sleep: b.sleep, awake: !b.env.Kernel.Sleepable}, nil
}

// Load loads a program that consists of sections. name is for messages, such as the name of a probe. The error may be a
// *rights.Error.
func (k Kernel) Load(name string, sections ...*Section) (*ebpf.Program, error) {
	prog, err := k.Preemption.load(k.program(name, sections))
	if errors.Is(err, unix.EPERM) {
		return nil, rights.New("loading BPF programs", err, rights.BPF, rights.Perfmon)
	}
	if err != nil {
		return nil, fmt.Errorf("load the program of %s: %w", name, err)
	}
	return prog, nil
}

// program returns the program that Load loads.
func (k Kernel) program(name string, sections []*Section) *ebpf.ProgramSpec {
	spec := &ebpf.ProgramSpec{Name: notInNames.ReplaceAllString(name, "_"), Type: ebpf.Kprobe, Instructions: join(sections), License: license}
	if k.Multi {
		spec.AttachType = ebpf.AttachTraceUprobeMulti
	}
	sleep, awake := false, !k.Sleepable
	for _, s := range sections {
		sleep, awake = sleep || s.sleep, awake || s.awake
	}
	if sleep && !awake {
		spec.Flags = unix.BPF_F_SLEEPABLE
	}
	if k.Preemption != (Preemption{}) && (spec.Flags != 0 || frame(spec.Instructions) > ownStack) {
		spec.Instructions = k.Preemption.alone(spec.Instructions)
	}
	return spec
}

// join concatenates sections: each but the last continues with the next one instead of returning.
func join(sections []*Section) (all asm.Instructions) {
	for i, s := range sections {
		label := func(name string) string { return fmt.Sprintf("%d.%s", i, name) }
		for j, ins := range s.ins {
			if i < len(sections)-1 && j == len(s.ins)-2 {
				ins = asm.Mov.Reg(asm.R1, regContext).WithSymbol(ins.Symbol())
			} else if i < len(sections)-1 && j == len(s.ins)-1 {
				break
			}
			if name := ins.Symbol(); name != "" {
				ins = ins.WithSymbol(label(name))
			}
			if name := ins.Reference(); name != "" {
				ins = ins.WithReference(label(name))
			}
			all = append(all, ins)
		}
	}
	return all
}

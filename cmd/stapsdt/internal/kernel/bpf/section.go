//go:build linux

package bpf

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Section is code that a program runs for one purpose. The sections of a program run one after
// another and share its stack.
type Section struct {
	ins   asm.Instructions
	sleep bool // whether it reads memory of the traced program, and may sleep to do so
	awake bool // whether it must not sleep
	// numbered means that it uses id, which an instruction with the metadata isID loads.
	numbered bool
	id       uint32
}

// isID marks the instruction of a section that loads its ID into R0.
type isID struct{}

// loadID leaves the section's ID in R0.
func (b *builder) loadID(id uint32) {
	ins := asm.Mov.Imm(asm.R0, int32(id))
	ins.Metadata.Set(isID{}, true)
	b.add(ins)
	b.numbered, b.id = true, id
}

// section returns the generated section. It expects the context in R1. It ends with two
// instructions that return; the first has labelExit.
func (b *builder) section() (*Section, error) {
	b.beginAttempts()
	ins, err := b.finish()
	if err != nil {
		return nil, err
	}
	return &Section{
		ins: ins, sleep: b.sleep, awake: !b.env.Kernel.Sleepable,
		numbered: b.numbered, id: b.id,
	}, nil
}

// Load loads a program that consists of sections. name is for messages, such as the name of a
// probe. The error may be a *rights.Error.
func (k Kernel) Load(name string, sections ...*Section) (*ebpf.Program, error) {
	prog, err := k.Preemption.load(k.program(name, sections))
	if errors.Is(err, unix.EPERM) {
		return nil, rights.New("loading BPF programs", err, rights.BPF, rights.Perfmon)
	}
	if err != nil {
		return nil, Refused(LoadProgram, fmt.Sprintf("the program of %s cannot be loaded", name), err)
	}
	return prog, nil
}

// Shape returns a string that is equal for sections of which Load makes the same program, and the
// cookie with which the program is attached to the sites of these. The kernel loads one program,
// and detaches one link, for all probes whose sections differ only in their IDs.
func (k Kernel) Shape(sections []*Section) (shape string, cookie uint64) {
	spec := k.program("", sections)
	b := binary.NativeEndian.AppendUint32(nil, spec.Flags)
	for _, i := range spec.Instructions {
		b = binary.NativeEndian.AppendUint64(b, uint64(i.Constant))
		b = binary.NativeEndian.AppendUint32(b, uint32(i.OpCode))
		b = binary.NativeEndian.AppendUint16(b, uint16(i.Offset))
		b = append(b, byte(i.Dst), byte(i.Src))
		b = fmt.Appendf(b, "%s %s\n", i.Symbol(), i.Reference())
	}
	if s := k.numbered(sections); s != nil {
		cookie = uint64(s.id)
	}
	sum := sha256.Sum256(b)
	return string(sum[:]), cookie
}

// numbered returns the section whose ID is the cookie of the program's link, or nil: a link has one
// cookie for each site, so that the IDs of several sections are constants, as they are without
// uprobe_multi.
func (k Kernel) numbered(sections []*Section) (one *Section) {
	for _, s := range sections {
		switch {
		case !k.Multi || s.numbered && one != nil:
			return nil
		case s.numbered:
			one = s
		}
	}
	return one
}

// program returns the program that Load loads.
func (k Kernel) program(name string, sections []*Section) *ebpf.ProgramSpec {
	spec := &ebpf.ProgramSpec{
		Name: notInNames().ReplaceAllString(name, "_"), Type: ebpf.Kprobe, License: license,
		Instructions: join(sections, k.numbered(sections)),
	}
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

// Join returns a section that runs one section after another. Only the first can use its ID.
func Join(first, second *Section) *Section {
	return &Section{
		ins:   join([]*Section{first, second}, nil),
		sleep: first.sleep || second.sleep, awake: first.awake || second.awake,
		numbered: first.numbered, id: first.id,
	}
}

// join concatenates sections: each but the last continues with the next one instead of returning.
// The ID of the section numbered, which may be nil, is the cookie.
func join(sections []*Section, numbered *Section) (all asm.Instructions) {
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
			if s == numbered && ins.Metadata.Get(isID{}) != nil {
				all = append(all, asm.Mov.Reg(asm.R1, regContext).WithSymbol(ins.Symbol()))
				ins = asm.FnGetAttachCookie.Call()
			}
			all = append(all, ins)
		}
	}
	return all
}

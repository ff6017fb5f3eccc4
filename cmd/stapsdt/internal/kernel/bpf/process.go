//go:build linux

package bpf

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// addProcess adds the variables that identify the process. PIDs and TIDs are numbered in our PID
// namespace, and UIDs in the initial user namespace.
func (v *variables) addProcess() {
	number, text := expr.Type{Kind: expr.Uint, Size: 4}, expr.Type{Kind: expr.String}
	v.add("pid", number, origin{kind: fromPID})
	v.add("tid", number, origin{kind: fromTID})
	v.add("cpu", number, origin{kind: fromCPU})
	v.add("uid", number, origin{kind: fromUID})
	v.add("cgroup", expr.Type{Kind: expr.Uint, Size: 8}, origin{kind: fromCgroup})
	v.add("comm", text, origin{kind: fromComm})
	v.add("executable", text, origin{kind: fromExecutable})
	v.add("namespace", text, origin{kind: fromNamespace})
	v.add("pod", text, origin{kind: fromPod})
	v.add("container", text, origin{kind: fromContainer})
	v.add("workload", text, origin{kind: fromWorkload})
	v.add("node", text, origin{kind: fromNode})
}

// processNumber leaves a number that identifies the process in R0.
func (b *builder) processNumber(k sourceKind) {
	switch k {
	case fromCPU:
		b.add(asm.FnGetSmpProcessorId.Call())
	case fromCgroup:
		b.add(asm.FnGetCurrentCgroupId.Call())
	case fromPID:
		b.pidTgid()
		b.add(asm.RSh.Imm(asm.R0, 32))
	case fromTID:
		b.pidTgid()
		b.extend(4, false)
	case fromUID:
		b.add(asm.FnGetCurrentUidGid.Call())
		b.extend(4, false)
	}
}

// ownText puts a string that is not an argument onto the stack.
func (b *builder) ownText(s origin, unreadable string) error {
	if s.kind == fromComm {
		at, isKey := b.place[s]
		if !isKey {
			at = b.alloc(layout.CommSize)
		}
		b.stack(asm.R1, at)
		b.add(asm.Mov.Imm(asm.R2, layout.CommSize), asm.FnGetCurrentComm.Call())
		b.texts[s] = &text{at: at, size: layout.CommSize}
		return nil
	}
	t := b.emptyText(s)
	if err := b.executable(asm.RFP, t.at, textRead, unreadable); err != nil {
		return err
	}
	b.add(asm.StoreMem(asm.RFP, t.length, asm.R0, asm.DWord))
	return nil
}

// executable reads the name of the file of the process's program, without its directory, to
// an offset from a register, and leaves its length with the NUL in R0.
func (b *builder) executable(to asm.Register, offset int16, size int32, unreadable string) error {
	if err := CheckExecutable(); err != nil {
		return err
	}
	chain, _ := executableName()
	b.add(asm.FnGetCurrentTask.Call())
	for _, at := range chain {
		b.readKernel(at, 8, unreadable)
	}
	b.add(
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Mov.Reg(asm.R1, to), asm.Add.Imm(asm.R1, int32(offset)),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernelStr.Call(),
		asm.JSLT.Imm(asm.R0, 0, unreadable),
	)
	return nil
}

// readKernel reads at most 8 bytes of the kernel's memory at an offset from R0 into R0.
func (b *builder) readKernel(offset, size int32, unreadable string) {
	b.add(asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, offset))
	b.stack(asm.R1, b.word)
	b.add(
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, unreadable),
		asm.LoadMem(asm.R0, asm.RFP, b.word, asm.DWord),
	)
}

// executableName returns the offsets of the pointers that lead from a task_struct to the name
// of the program's file.
var executableName = sync.OnceValues(func() ([]int32, error) {
	return kernelOffsets("task_struct.mm", "mm_struct.exe_file", "file.f_path.dentry", "dentry.d_name.name")
})

// kernelOffsets returns the offsets of members in the structs of this kernel. Each member is given
// as STRUCT.MEMBER or STRUCT.MEMBER.MEMBER. The error is ErrLockdown if programs cannot read them.
// All code that reads the kernel's structs calls it first.
func kernelOffsets(members ...string) (offsets []int32, err error) {
	if isLockedDown() {
		return nil, ErrLockdown
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, &Refusal{
			"the kernel does not describe its types", "it was built without CONFIG_DEBUG_INFO_BTF", err,
		}
	}
	for _, member := range members {
		path := strings.Split(member, ".")
		var of *btf.Struct
		if err := kernel.TypeByName(path[0], &of); err != nil {
			return nil, err
		}
		at, err := memberOffset(of, path[1:]...)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, int32(at))
	}
	return offsets, nil
}

// memberOffset returns the offset of a member in a struct. path has the names of the nested
// members. The members of an unnamed struct or union count as members of the struct that contains
// it.
func memberOffset(t btf.Type, path ...string) (uint32, error) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		rest := path
		switch m.Name {
		case path[0]:
			rest = path[1:]
		case "":
		default:
			continue
		}
		if len(rest) == 0 {
			return m.Offset.Bytes(), nil
		}
		if at, err := memberOffset(m.Type, rest...); err == nil {
			return m.Offset.Bytes() + at, nil
		}
	}
	return 0, fmt.Errorf("no such member: %s of %s", path[0], t.TypeName())
}

// CheckExecutable returns an error if programs cannot read the name of the executable.
func CheckExecutable() error {
	if _, err := executableName(); err != nil {
		return fmt.Errorf("programs in the kernel cannot read which executable a process has: %w", err)
	}
	return nil
}

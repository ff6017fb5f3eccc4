//go:build linux

package bpf

import (
	"bytes"
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

const (
	// maxGroups is the number of new control groups that are kept. The oldest are dropped.
	maxGroups = 2048
	// groupPathSize is the number of bytes of a group's path that are kept.
	groupPathSize = 512
)

// Groups holds the paths of the control groups of version 2 that are created from now on, including
// groups that are removed before anything can read them.
type Groups struct {
	paths, scratch *ebpf.Map
	prog           *ebpf.Program
	link           link.Link
}

// FollowGroups starts recording new control groups. It needs a kernel that describes its types.
func FollowGroups() (g *Groups, err error) {
	g = &Groups{}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	g.paths, err = ebpf.NewMap(
		&ebpf.MapSpec{
			Name: "groups", Type: ebpf.LRUHash, KeySize: 8, ValueSize: groupPathSize,
			MaxEntries: maxGroups,
		},
	)
	if err != nil {
		return g, err
	}
	// A path does not fit on the stack of a program.
	g.scratch, err = ebpf.NewMap(
		&ebpf.MapSpec{
			Name: "group", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: groupPathSize, MaxEntries: 1,
		},
	)
	if err != nil {
		return g, err
	}
	b, err := g.program()
	if err != nil {
		return g, err
	}
	g.prog, g.link, err = b.start("groups", ebpf.RawTracepoint, rawTracepoint("cgroup_mkdir"))
	return g, err
}

// program generates the program, which receives the arguments of the tracepoint cgroup_mkdir: the
// group and its path.
func (g *Groups) program() (*builder, error) {
	const group, path = 0, 8
	b := newBuilder(&Env{}, nil)
	b.begin()
	// Groups of version 1 have IDs of their own. Their hierarchies have IDs other than 0.
	at, err := kernelOffsets("cgroup.root", "cgroup_root.hierarchy_id", "cgroup.kn", "kernfs_node.id")
	if err != nil {
		return nil, err
	}
	b.add(asm.LoadMem(asm.R0, regContext, group, asm.DWord))
	b.readKernel(at[0], 8, labelExit)
	b.readKernel(at[1], 4, labelExit)
	b.extend(4, false)
	b.add(asm.JNE.Imm(asm.R0, 0, labelExit), asm.LoadMem(asm.R0, regContext, group, asm.DWord))
	b.readKernel(at[2], 8, labelExit)
	b.readKernel(at[3], 8, labelExit)
	key := b.alloc(8)
	b.add(asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	b.element(g.scratch, 0, labelExit)
	b.add(
		asm.Mov.Reg(regRecord, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, groupPathSize),
		asm.LoadMem(asm.R3, regContext, path, asm.DWord),
		asm.FnProbeReadKernelStr.Call(),
		asm.JSLT.Imm(asm.R0, 0, labelExit),
		asm.LoadMapPtr(asm.R1, g.paths.FD()),
	)
	b.stack(asm.R2, key)
	b.add(
		asm.Mov.Reg(asm.R3, regRecord),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	)
	return b, nil
}

// Path returns the path of a group that was created since FollowGroups, or "". It returns "" for
// all groups if g is nil.
func (g *Groups) Path(id uint64) string {
	var path [groupPathSize]byte
	if g == nil || g.paths.Lookup(id, &path) != nil {
		return ""
	}
	text, _, _ := bytes.Cut(path[:], []byte{0})
	return string(text)
}

// Close stops the recording of new groups.
func (g *Groups) Close() error {
	var errs []error
	if g.link != nil {
		errs = append(errs, g.link.Close())
	}
	return errors.Join(append(errs, g.prog.Close(), g.scratch.Close(), g.paths.Close())...)
}

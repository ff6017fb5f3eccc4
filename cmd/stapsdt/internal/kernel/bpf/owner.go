//go:build linux

package bpf

import (
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// userNamespaces is the maximum depth of nested user namespaces.
const userNamespaces = 32

// ownerMembers returns the offsets of the members that lead to the owner of a process.
var ownerMembers = sync.OnceValues(func() ([]int32, error) {
	return kernelOffsets("task_struct.cred", "cred.user_ns", "user_namespace.level", "user_namespace.parent", "user_namespace.owner",
		"task_struct.nsproxy", "nsproxy.mnt_ns", "mnt_namespace.ns.inum")
})

// owner stores the owner of the process at a stack offset, like package target: its real user or
// the creator of its outermost user namespace, and for root, in the upper half, the mount
// namespace. It is the user if the kernel does not describe its types. owner changes regRecord and
// regMissing.
func (b *builder) owner(to int16) {
	b.processNumber(fromUID)
	b.add(asm.StoreMem(asm.RFP, to, asm.R0, asm.DWord))
	offsets, err := ownerMembers()
	if err != nil {
		return
	}
	cred, userNS, level := offsets[0], offsets[1], offsets[2]
	parent, creator := offsets[3], offsets[4]
	nsproxy, mntNS, inum := offsets[5], offsets[6], offsets[7]
	const namespace, steps = regRecord, regMissing
	next, outermost, initial, known := b.fresh("namespace"), b.fresh("outermost"), b.fresh("initial"), b.fresh("owner")
	number := func(offset int32) {
		b.readKernel(offset, 4, known)
		b.extend(4, false)
	}
	b.add(asm.FnGetCurrentTask.Call())
	b.readKernel(cred, 8, known)
	b.readKernel(userNS, 8, known)
	b.add(asm.Mov.Reg(namespace, asm.R0))
	number(level)
	b.add(asm.JEq.Imm(asm.R0, 0, initial), asm.Mov.Imm(steps, userNamespaces))
	b.label(next)
	b.add(
		asm.JLE.Imm(asm.R0, 1, outermost),
		asm.JEq.Imm(steps, 0, outermost),
		asm.Sub.Imm(steps, 1),
		asm.Mov.Reg(asm.R0, namespace),
	)
	b.readKernel(parent, 8, known)
	b.add(asm.Mov.Reg(namespace, asm.R0))
	number(level)
	b.jump(next)
	b.label(outermost)
	b.add(asm.Mov.Reg(asm.R0, namespace))
	number(creator)
	b.add(asm.StoreMem(asm.RFP, to, asm.R0, asm.DWord))
	b.label(initial)
	b.add(
		asm.LoadMem(asm.R0, asm.RFP, to, asm.DWord),
		asm.JNE.Imm(asm.R0, 0, known),
		asm.FnGetCurrentTask.Call(),
	)
	b.readKernel(nsproxy, 8, known)
	b.readKernel(mntNS, 8, known)
	number(inum)
	b.add(asm.LSh.Imm(asm.R0, 32), asm.StoreMem(asm.RFP, to, asm.R0, asm.DWord))
	b.label(known)
}

// room leaves the address of the owner's number of entries in regRecord. If the owner has the
// maximum number of entries, it jumps to full. The owner is at a stack offset.
func (b *builder) room(s *layout.Shares, owner int16, full string) {
	known := b.fresh("share")
	b.lookup(s.Owners.FD(), owner)
	b.add(
		asm.JNE.Imm(asm.R0, 0, known),
		asm.StoreMem(asm.RFP, b.word, asm.R0, asm.DWord), // 0
	)
	b.update(s.Owners, owner, b.word, ebpf.UpdateNoExist)
	b.lookup(s.Owners.FD(), owner)
	b.add(asm.JEq.Imm(asm.R0, 0, full))
	b.label(known)
	b.add(asm.Mov.Reg(regRecord, asm.R0))
	b.element(s.All, 0, full)
	b.add(
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Mov.Imm(asm.R2, int32(s.Limit)), asm.Sub.Reg(asm.R2, asm.R1),
		asm.LoadMem(asm.R3, regRecord, 0, asm.DWord),
		asm.JSGE.Reg(asm.R3, asm.R2, full),
	)
}

// enter counts a new entry after room.
func (b *builder) enter(s *layout.Shares) {
	b.add(asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(regRecord, asm.R1, asm.DWord, 0))
	b.addToAll(s, 1)
}

// leave discounts an entry of the owner at a stack offset.
func (b *builder) leave(s *layout.Shares, owner int16) {
	forgotten := b.fresh("forgotten")
	b.lookup(s.Owners.FD(), owner)
	b.add(
		asm.JEq.Imm(asm.R0, 0, forgotten),
		asm.Mov.Imm(asm.R1, -1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
	b.label(forgotten)
	b.addToAll(s, -1)
}

func (b *builder) addToAll(s *layout.Shares, n int32) {
	none := b.fresh("all")
	b.element(s.All, 0, none)
	b.add(asm.Mov.Imm(asm.R1, n), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0))
	b.label(none)
}

// putShared stores an open operation, and counts it for its owner unless it replaces another
// operation.
func (b *builder) putShared(of Operations, key, value int16) {
	replaced, absent := b.fresh("replaced"), b.fresh("absent")
	b.lookup(of.Open.FD(), key)
	b.add(
		asm.JEq.Imm(asm.R0, 0, absent),
		asm.LoadMem(asm.R1, asm.R0, layout.OpenOwner, asm.DWord),
		// the owner for whom it is counted
		asm.StoreMem(asm.RFP, value+layout.OpenOwner, asm.R1, asm.DWord),
	)
	b.update(of.Open, key, value, ebpf.UpdateExist)
	b.add(asm.JEq.Imm(asm.R0, 0, replaced))
	b.label(absent)
	b.owner(value + layout.OpenOwner)
	b.room(of.Shares, value+layout.OpenOwner, labelFull)
	b.update(of.Open, key, value, ebpf.UpdateNoExist)
	b.add(asm.JEq.Imm(asm.R0, -int32(unix.EEXIST), replaced), asm.JNE.Imm(asm.R0, 0, labelFull))
	b.enter(of.Shares)
	b.label(replaced)
}

//go:build linux

package bpf

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Namespace identifies the PID namespace of this process by its file in /proc/self/ns.
type Namespace struct{ Device, Inode uint64 }

// initialPID is the inode of the initial PID namespace (PROC_PID_INIT_INO).
const initialPID = 0xEFFFFFFC

// CurrentNamespace returns the PID namespace of this process, or nil if it is the initial one. It
// is an error if /proc has the PIDs of another one.
func CurrentNamespace() (*Namespace, error) {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return nil, fmt.Errorf("find the PID namespace: %w", err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("/proc belongs to a PID namespace other than this command's: mount it again, for example with unshare --mount-proc")
	}
	ns, err := namespaceOf(os.Getpid())
	if err != nil || ns.Inode == initialPID {
		return nil, err
	}
	return ns, nil
}

// namespaceOf returns the PID namespace of a process.
func namespaceOf(pid int) (*Namespace, error) {
	var stat unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid), &stat); err != nil {
		return nil, fmt.Errorf("find the PID namespace of process %d: %w", pid, err)
	}
	return &Namespace{stat.Dev, stat.Ino}, nil
}

// Identifies returns an error if programs cannot recognize a process by its PID.
func (env *Env) Identifies(pid int) error {
	if env.Namespace == nil {
		return nil
	}
	_, unknown := numberMembers()
	if ns, err := namespaceOf(pid); unknown == nil || err != nil || *ns == *env.Namespace {
		return nil
	}
	return fmt.Errorf("process %d is in a PID namespace of its own, in which its PID cannot be found out: %w; run stapsdt in that namespace, or in the machine's", pid, unknown)
}

// pidNamespaces is the maximum number of nested PID namespaces (MAX_PID_NS_LEVEL).
const pidNamespaces = 32

// numberMembers returns the offsets of the members that lead from a task to its numbers.
var numberMembers = sync.OnceValues(func() ([]int32, error) {
	return kernelOffsets("task_struct.thread_pid", "task_struct.group_leader",
		"pid.level", "pid.numbers", "upid.nr", "upid.ns", "pid_namespace.ns.inum")
})

// sizeofUpid is the size of a struct upid, the element of pid.numbers: a number and a pointer.
const sizeofUpid = 16

// pidTgid leaves the PID in the upper half of R0 and the TID in the lower half, both as numbered in
// our PID namespace. They are 0 if the process has none there.
func (b *builder) pidTgid() {
	ns := b.env.Namespace
	if ns == nil {
		b.add(asm.FnGetCurrentPidTgid.Call())
		return
	}
	known, other := b.fresh("numbered"), b.fresh("other")
	b.constant(asm.R1, int64(ns.Device))
	b.constant(asm.R2, int64(ns.Inode))
	b.stack(asm.R3, b.word)
	b.add(
		asm.Mov.Imm(asm.R4, 8),
		asm.FnGetNsCurrentPidTgid.Call(),
		asm.JNE.Imm(asm.R0, 0, other),
		// struct bpf_pidns_info: pid, tgid.
		asm.LoadMem(asm.R1, asm.RFP, b.word, asm.Word),
		asm.LoadMem(asm.R0, asm.RFP, b.word+4, asm.Word),
		asm.LSh.Imm(asm.R0, 32),
		asm.Or.Reg(asm.R0, asm.R1),
	)
	b.jump(known)
	// The helper refuses a process in another namespace, even in one below ours.
	b.label(other)
	b.add(asm.FnGetCurrentTask.Call())
	b.numbers()
	b.label(known)
}

// numbers replaces a task_struct in R0 by what pidTgid leaves for it.
func (b *builder) numbers() {
	offsets, err := numberMembers()
	if err != nil { // Identifies refuses the processes that a user names
		b.add(asm.Mov.Imm(asm.R0, 0))
		return
	}
	threadPID, groupLeader, nr := offsets[0], offsets[1], offsets[3]+offsets[4]
	depth := b.depth
	defer func() { b.depth = depth }()
	task, at, number := b.alloc(8), b.alloc(8), b.alloc(8)
	none, done := b.fresh("none"), b.fresh("numbers")
	save := func(to int16) { b.add(asm.StoreMem(asm.RFP, to, asm.R0, asm.DWord)) }
	load := func(from int16) { b.add(asm.LoadMem(asm.R0, asm.RFP, from, asm.DWord)) }

	save(task)
	b.readKernel(threadPID, 8, none)
	save(at)
	b.findNumber(offsets, at, number, none)
	// The process has its number in the same place among the numbers of its first thread.
	b.add(asm.LoadMem(asm.R1, asm.RFP, number, asm.DWord))
	load(at)
	b.add(asm.Add.Reg(asm.R0, asm.R1))
	b.readKernel(nr, 4, none)
	b.extend(4, false)
	save(at)
	load(task)
	b.readKernel(groupLeader, 8, none)
	b.readKernel(threadPID, 8, none)
	b.add(asm.LoadMem(asm.R1, asm.RFP, number, asm.DWord), asm.Add.Reg(asm.R0, asm.R1))
	b.readKernel(nr, 4, none)
	b.add(
		asm.LSh.Imm(asm.R0, 32),
		asm.LoadMem(asm.R1, asm.RFP, at, asm.DWord),
		asm.Or.Reg(asm.R0, asm.R1),
	)
	b.jump(done)
	b.label(none)
	b.add(asm.Mov.Imm(asm.R0, 0))
	b.label(done)
}

// findNumber finds this command's namespace among the numbers of the struct pid in R0 and at, from
// its own namespace to the initial one, and stores the offset of the number in result. It jumps to
// none if it is not there.
func (b *builder) findNumber(offsets []int32, at, result int16, none string) {
	level, numbers, of, inum := offsets[2], offsets[3], offsets[5], offsets[6]
	steps := b.alloc(8)
	next, found := b.fresh("level"), b.fresh("found")
	b.readKernel(level, 4, none)
	b.extend(4, false)
	b.add(
		asm.JGE.Imm(asm.R0, pidNamespaces+1, none),
		asm.Mul.Imm(asm.R0, sizeofUpid),
		asm.StoreMem(asm.RFP, result, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, pidNamespaces+1),
		asm.StoreMem(asm.RFP, steps, asm.R1, asm.DWord),
	)
	b.label(next)
	b.add(
		asm.LoadMem(asm.R1, asm.RFP, result, asm.DWord),
		asm.LoadMem(asm.R0, asm.RFP, at, asm.DWord),
		asm.Add.Reg(asm.R0, asm.R1),
	)
	b.readKernel(numbers+of, 8, none)
	b.readKernel(inum, 4, none)
	b.extend(4, false)
	b.constant(asm.R1, int64(b.env.Namespace.Inode))
	b.add(
		asm.JEq.Reg(asm.R0, asm.R1, found),
		asm.LoadMem(asm.R1, asm.RFP, result, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, none),
		asm.Sub.Imm(asm.R1, sizeofUpid),
		asm.StoreMem(asm.RFP, result, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, steps, asm.DWord),
		asm.Sub.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, steps, asm.R1, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, next),
	)
	b.jump(none)
	b.label(found)
}

//go:build linux && (amd64 || arm64)

package bpf

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
)

// TestLoadLockedDown: a program is loaded as it is, with its maps and jumps, and one that reads the kernel's memory is refused in words.
func TestLoadLockedDown(t *testing.T) {
	testenv.NeedsRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	require.NoError(t, err)
	defer m.Close()
	spec := func(read asm.BuiltinFunc) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{Name: "reads", Type: ebpf.Kprobe, License: "Dual MIT/GPL", Instructions: asm.Instructions{
			asm.LoadMem(regContext, asm.R1, 0, asm.DWord),
			asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
			asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -8),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Imm(asm.R2, 16), asm.Mov.Reg(asm.R3, regContext),
			read.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return(),
		}}
	}
	for _, read := range []asm.BuiltinFunc{asm.FnProbeReadUser, asm.FnProbeReadUserStr} {
		before := spec(read)
		prog, err := loadLockedDown(before)
		require.NoError(t, err)
		defer prog.Close()
		require.Equal(t, ebpf.Kprobe, prog.Type())
		require.Equal(t, "exit", before.Instructions[7].Reference(), "the spec is as it was")
		info, err := prog.Info()
		require.NoError(t, err)
		require.Equal(t, "reads", info.Name)
		ids, _ := info.MapIDs()
		require.Len(t, ids, 1)
	}
	for _, read := range []asm.BuiltinFunc{asm.FnProbeReadKernel, asm.FnProbeReadKernelStr} {
		_, err := loadLockedDown(spec(read))
		require.ErrorIs(t, err, ErrLockdown)
	}
	wrong := spec(asm.FnProbeReadUser)
	wrong.Instructions = wrong.Instructions[:3]
	_, err = loadLockedDown(wrong)
	require.ErrorContains(t, err, "load program: invalid argument")
	require.False(t, isLockedDown(), "this machine is not")
}

// lockDown has the package believe, for a test, that the kernel is locked down.
func lockDown(t *testing.T) {
	locked, executable, numbers, owner := isLockedDown, executableName, numberMembers, ownerMembers
	t.Cleanup(func() { isLockedDown, executableName, numberMembers, ownerMembers = locked, executable, numbers, owner })
	isLockedDown = func() bool { return true }
	unknown := func() ([]int32, error) { return kernelOffsets("task_struct.cred") }
	executableName, numberMembers, ownerMembers = unknown, unknown, unknown
}

// TestLockedDown: no program reads the kernel's memory. What needs it comes from the reader of the events, or is refused in words.
func TestLockedDown(t *testing.T) {
	testenv.NeedsRoot(t)
	lockDown(t)
	machine := &Machine{Namespace: &Namespace{Device: 1, Inode: 2}}
	env, err := machine.Env()
	require.NoError(t, err)
	defer env.Stats.Close()
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 12})
	require.NoError(t, err)
	defer ring.Close()
	requireUserOnly := func(ins asm.Instructions) {
		require.NotEmpty(t, ins)
		for _, in := range ins {
			require.False(t, in.IsBuiltinCall() && readsKernel(asm.BuiltinFunc(in.Constant)), "%v", in)
		}
	}
	trace, err := NewTrace(sample(), `s != "x" && pid != 7 && uid == 0 && comm != "y"`, []string{"i8", "executable", "s", "executable"}, 20, false)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, trace.Executables)
	section, err := trace.Section(env, ring, 0)
	require.NoError(t, err)
	requireUserOnly(section.ins)

	b := newBuilder(env, sample())
	b.begin()
	b.owner(b.alloc(8))
	b.leaveProgram()
	ins, err := b.finish()
	require.NoError(t, err)
	requireUserOnly(ins)

	trace, err = NewTrace(sample(), `executable == "x"`, nil, 20, false)
	require.NoError(t, err)
	_, err = trace.Section(env, ring, 0)
	require.ErrorContains(t, err, ErrLockdown.Error())
	trace, err = NewTrace(sample(), "", nil, 20, false)
	require.NoError(t, err)
	env.Executable = NewPattern("x*")
	_, err = trace.Section(env, ring, 0)
	require.ErrorContains(t, err, ErrLockdown.Error())
	_, _, err = FollowForks(ring, env.Namespace)
	require.ErrorIs(t, err, ErrLockdown)
	_, err = FollowGroups()
	require.ErrorIs(t, err, ErrLockdown)
}

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
		require.ErrorIs(t, err, errLockdown)
	}
	wrong := spec(asm.FnProbeReadUser)
	wrong.Instructions = wrong.Instructions[:3]
	_, err = loadLockedDown(wrong)
	require.ErrorContains(t, err, "load program: invalid argument")
	require.False(t, isLockedDown(), "this machine is not")
}

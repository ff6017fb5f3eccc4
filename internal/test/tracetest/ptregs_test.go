//go:build linux

package tracetest

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPtRegs: each register that a note can name is found where pt_regs has it, and decoded as the argument it is.
func TestPtRegs(t *testing.T) {
	for arch, want := range map[string]map[string]uint64{
		// The word's number, from the kernel's ptrace.h.
		"amd64": {"%rdi": 14, "%rsi": 13, "%rdx": 12, "%rcx": 11, "%r8": 9, "%r9": 8, "%rsp": 19, "%eax": 10, "%rbp": 4, "%r15": 0},
		"arm64": {"x0": 0, "x7": 7, "x30": 30, "sp": 31, "w3": 3},
	} {
		regs := make([]byte, 8*len(ptRegs[arch]))
		for i := range ptRegs[arch] {
			binary.NativeEndian.PutUint64(regs[8*i:], uint64(i))
		}
		s, err := newSample(1, 2, regs, []byte("12345678"), arch)
		require.NoError(t, err)
		for name, word := range want {
			got, ok := s.Reg(name)
			require.True(t, ok, name)
			require.Equal(t, word, got, "%s on %s", name, arch)
		}
		require.Equal(t, map[string]uint64{"amd64": 16, "arm64": 32}[arch], s.IP)
		require.Equal(t, map[string]uint64{"amd64": 19, "arm64": 31}[arch], s.SP)
	}
	s, err := newSample(1, 2, make([]byte, 8*len(ptRegs["amd64"])), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0xfe}, "amd64")
	require.NoError(t, err)
	v, err := s.Arg(parseArg("amd64", "-1@8(%rsp)"))
	require.NoError(t, err)
	require.EqualValues(t, -2, int64(v))

	_, err = newSample(1, 2, make([]byte, 7), nil, "amd64")
	require.Error(t, err)
	_, err = newSample(1, 2, nil, nil, "mips")
	require.Error(t, err)
}

// TestPtRegsOffset: what a BPF program reads is the register that an operand names.
func TestPtRegsOffset(t *testing.T) {
	_, ok := PtRegsOffset("")
	require.False(t, ok)
	_, ok = PtRegsOffset("no register")
	require.False(t, ok)
	if l := hostLayout(); l != nil {
		seen := map[int]bool{}
		for name, r := range l.names {
			if r.bits != 64 {
				continue
			}
			offset, ok := PtRegsOffset(name)
			require.True(t, ok, name)
			require.False(t, seen[offset], name)
			require.Less(t, offset, 8*PtRegsWords())
			seen[offset] = true
		}
	}
}

//go:build linux

package tracetest

import (
	"debug/elf"
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// record is the body of a sample, as the kernel writes it.
func record(words []uint64, stack []byte, real uint64) []byte {
	order := binary.NativeEndian
	b := order.AppendUint32(nil, 41)
	b = order.AppendUint32(b, 42)
	b = order.AppendUint64(b, 1e9)
	if words == nil {
		b = order.AppendUint64(b, 0)
	} else {
		b = order.AppendUint64(b, 2)
		for _, w := range words {
			b = order.AppendUint64(b, w)
		}
	}
	b = order.AppendUint64(b, uint64(len(stack)))
	if len(stack) == 0 {
		return b
	}
	return order.AppendUint64(append(b, stack...), real)
}

// parseArg reads an argument of an architecture.
func parseArg(arch, text string) sdt.Arg {
	return sdt.ParseArgs(map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch], text)[0]
}

func sampleOf(t *testing.T, arch string, stackPointer uint64) Sample {
	l := layouts[arch]
	words := make([]uint64, bits.OnesCount64(l.mask))
	for i := range words {
		words[i] = 0xf1f2f3f4f5f6f700 + uint64(i)
	}
	words[l.sp] = stackPointer
	stack := []byte{0x80, 0xff, 1, 2, 3, 4, 5, 6, 0xfe, 0xff, 0xff, 0xff, 9, 9, 9, 0xff}
	s, err := decodeSample(record(words, append(stack, make([]byte, 16)...), 16), l)
	require.NoError(t, err)
	require.Equal(t, stack, s.Stack)
	require.Equal(t, 41, s.PID)
	require.Equal(t, 42, s.TID)
	require.Equal(t, stackPointer, s.SP)
	return s
}

func TestSampleRegisters(t *testing.T) {
	// The position in the sample, where amd64 has four words fewer than the kernel has numbers.
	for arch, regs := range map[string]map[string]uint64{
		"amd64": {
			"%rax": 0, "%rbx": 1, "%rcx": 2, "%rdx": 3, "%rsi": 4, "%rdi": 5, "%rbp": 6,
			"%r8": 12, "%r9": 13, "%r10": 14, "%r11": 15, "%r12": 16, "%r13": 17, "%r14": 18, "%r15": 19,
		},
		"arm64": {"x0": 0, "x7": 7, "x29": 29, "x30": 30},
	} {
		s := sampleOf(t, arch, 0x7000)
		for name, at := range regs {
			v, ok := s.Reg(name)
			require.True(t, ok, name)
			require.Equal(t, 0xf1f2f3f4f5f6f700+at, v, name)
		}
		_, ok := s.Reg("%rip")
		require.False(t, ok)
	}
	s := sampleOf(t, "amd64", 0x7000)
	for name, want := range map[string]uint64{"%ecx": 0xf5f6f702, "%cx": 0xf702, "%cl": 2, "%sil": 4, "%r9d": 0xf5f6f70d, "%r9w": 0xf70d, "%r9b": 13} {
		v, ok := s.Reg(name)
		require.True(t, ok, name)
		require.Equal(t, want, v, name)
	}
	require.Equal(t, uint64(0xf1f2f3f4f5f6f708), s.IP)
	require.Equal(t, uint64(0xf1f2f3f4f5f6f720), sampleOf(t, "arm64", 0).IP)
	_, ok := s.Reg("x0")
	require.False(t, ok, "a register of another architecture")
}

func TestSampleArg(t *testing.T) {
	const sp = 0x7ffc0000
	for _, tt := range []struct {
		arch, arg string
		want      int64
	}{
		{"amd64", "8@%rdi", -0xe0d0c0b0a0908fb},
		{"amd64", "-8@%rdi", -0xe0d0c0b0a0908fb},
		{"amd64", "4@%rdi", 0xf5f6f705},
		{"amd64", "-4@%edi", -0xa0908fb},
		{"amd64", "2@%di", 0xf705},
		{"amd64", "-2@%rdi", -0x8fb},
		{"amd64", "1@%rdi", 5},
		{"amd64", "8@(%rsp)", 0x060504030201ff80},
		{"amd64", "8@8(%rsp)", -0xf6f6f600000002},
		{"amd64", "4@8(%rsp)", 0xfffffffe},
		{"amd64", "-4@8(%rsp)", -2},
		{"amd64", "2@(%rsp)", 0xff80},
		{"amd64", "-2@(%rsp)", -128},
		{"amd64", "-1@0(%rsp)", -128},
		{"amd64", "1@15(%rsp)", 0xff},
		{"arm64", "-4@x5", -0xa0908fb},
		{"arm64", "4@w5", 0xf5f6f705},
		{"arm64", "-4@[sp, 8]", -2},
		{"arm64", "8@[sp]", 0x060504030201ff80},
	} {
		v, err := sampleOf(t, tt.arch, sp).Arg(parseArg(tt.arch, tt.arg))
		require.NoError(t, err, tt.arg)
		require.Equal(t, tt.want, int64(v), tt.arg)
	}
	for _, text := range []string{
		"8@9(%rsp)", "1@16(%rsp)", "1@-1(%rsp)", "8@9223372036854775807(%rsp)", "8@-9223372036854775808(%rsp)", "8@(%rbp)",
		"8@x0", "8@[sp, 0]", "3@%rdi", "64@%rdi", "%rdi", "8@$5", "8@", "8@counter(%rip)", "8@(%rsp,%rax,8)", "1@%ah", "8@%xmm0",
	} {
		_, err := sampleOf(t, "amd64", sp).Arg(parseArg("amd64", text))
		require.Error(t, err, text)
	}
	_, err := sampleOf(t, "amd64", ^uint64(0)-3).Arg(parseArg("amd64", "8@8(%rsp)"))
	require.Error(t, err, "an address that wraps")
}

func TestDecodeSampleHostile(t *testing.T) {
	l := layouts["amd64"]
	whole := record(make([]uint64, bits.OnesCount64(l.mask)), make([]byte, 16), 16)
	for cut := range whole {
		_, err := decodeSample(whole[:cut], l)
		require.ErrorIs(t, err, errShortRecord)
	}
	// More stack than was asked for is not there.
	s, err := decodeSample(record(nil, make([]byte, 16), 17), l)
	require.NoError(t, err)
	require.Empty(t, s.Stack)
	// A kernel thread has no user registers.
	s, err = decodeSample(record(nil, nil, 0), l)
	require.NoError(t, err)
	_, ok := s.Reg("%rdi")
	require.False(t, ok)
	_, err = s.Arg(parseArg("amd64", "8@%rdi"))
	require.Error(t, err)
	_, err = decodeSample(binary.NativeEndian.AppendUint64(whole[:16:16], 0)[:24], nil)
	require.NoError(t, err, "an architecture without registers")
}

func TestParseCPUs(t *testing.T) {
	for s, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0-1,4,6-7": {0, 1, 4, 6, 7}} {
		got, err := parseCPUs(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"", "-", "0-", "a", "0,,1", "3-1", "-1"} {
		_, err := parseCPUs(s)
		require.Error(t, err, s)
	}
}

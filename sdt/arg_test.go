package sdt

import (
	"debug/elf"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseArgs(t *testing.T) {
	for text, want := range map[string][]string{
		"":                              {},
		" ":                             {},
		"8@%rdi":                        {"8@%rdi"},
		"-4@%esi 1@%dl -2@8(%rsp)":      {"-4@%esi", "1@%dl", "-2@8(%rsp)"},
		" 8@%rdi  8@%rsi ":              {"8@%rdi", "8@%rsi"},
		"-8@-8(%rbp, %rax, 4) -4@$5":    {"-8@-8(%rbp, %rax, 4)", "-4@$5"},
		"8f@%xmm0 4f@%eax -8f@8(%rsp)":  {"8f@%xmm0", "4f@%eax", "-8f@8(%rsp)"},
		"8@%rdi 8@sym@GOTPCREL(%rip)":   {"8@%rdi", "8@sym@GOTPCREL(%rip)"},
		"4@DWORD PTR [rsp+8] 8@%rdi":    {"4@DWORD PTR [rsp+8]", "8@%rdi"},
		"%rdi %rsi":                     {"%rdi", "%rsi"},
		"04@%rdi 8@%rsi":                {"04@%rdi", "8@%rsi"},
		"8@(%rsp 8@%rdi":                {"8@(%rsp 8@%rdi"},
		"8@%rsp) 8@%rdi":                {"8@%rsp)", "8@%rdi"},
		"8@%st(1) 8@%rdi":               {"8@%st(1)", "8@%rdi"},
		"3@%rdi 16@%rdi -128@%rdi 1f@$": {"3@%rdi", "16@%rdi", "-128@%rdi", "1f@$"},
	} {
		args := ParseArgs(elf.EM_X86_64, text)
		require.Len(t, args, len(want), text)
		for i, a := range args {
			require.Equal(t, want[i], a.String(), text)
		}
	}
	require.Equal(t, []Arg{
		{Size: 4, Signed: true, Operand: Operand{Kind: OperandRegister, Base: Register{"%esi", "%rsi", 32, 0}, Text: "%esi"}},
		{Size: 8, Float: true, Operand: Operand{Kind: OperandMemory, Base: Register{"%rsp", "%rsp", 64, 0}, Displacement: 8, Text: "8(%rsp)"}},
	}, ParseArgs(elf.EM_X86_64, "-4@%esi 8f@8(%rsp)"))
}

func TestArgErr(t *testing.T) {
	for text, want := range map[string]string{
		"%rdi": "does not begin with a size", "@%rdi": "size", "8@": "size", "04@%rdi": "size", "-0@%rdi": "size", "--4@%rdi": "size",
		"+4@%rdi": "size", "x@y": "size", "1e0@%rdi": "size", "1000@%rdi": "size", "ff@%rdi": "size",
		"3@%rdi": "none of 1, 2, 4 and 8", "16@%rdi": "none of", "2f@%rdi": "no floating-point number has 2 bytes",
		"8@%rsx": `operand "%rsx"`,
	} {
		args := ParseArgs(elf.EM_X86_64, text)
		require.Len(t, args, 1)
		require.ErrorContains(t, args[0].Err, want, text)
		require.Equal(t, text, args[0].String())
	}
	args := ParseArgs(elf.EM_MIPS, "8@$4 8@8($sp)")
	require.Len(t, args, 2)
	require.ErrorContains(t, args[0].Err, "the notation of EM_MIPS is not supported")
	require.Equal(t, OperandUnknown, args[0].Operand.Kind)
	require.Equal(t, 8, args[0].Size)
}

// show writes an operand in one notation for all architectures.
func show(o Operand) string {
	register := func(r Register) string {
		if whole := r.Shift == 0 && r.Name == r.Full; whole {
			return r.Full
		}
		return fmt.Sprintf("%s[%d:%d]", r.Full, r.Shift, r.Shift+r.Bits)
	}
	switch o.Kind {
	case OperandRegister:
		return register(o.Base)
	case OperandVector:
		return "vector " + register(o.Base)
	}
	var sum []string
	if o.Symbol != "" {
		sum = append(sum, o.Symbol)
	}
	if o.Base.Name != "" {
		sum = append(sum, register(o.Base))
	}
	if o.Index.Name != "" {
		sum = append(sum, fmt.Sprintf("%s*%d", register(o.Index), o.Scale))
	}
	if o.Displacement != 0 || len(sum) == 0 {
		sum = append(sum, fmt.Sprint(o.Displacement))
	}
	if o.Kind == OperandConstant {
		return strings.Join(sum, " + ")
	}
	return "*(" + strings.Join(sum, " + ") + ")"
}

// samples are operands of every architecture, most of them as gcc 12 and clang 14 wrote them
// into notes of <sys/sdt.h>, without optimization, with -O2, and with -fPIC.
var samples = map[elf.Machine]map[string]string{
	elf.EM_X86_64: {
		"%rdi": "%rdi", "%eax": "%rax[0:32]", "%r10d": "%r10[0:32]", "%r9b": "%r9[0:8]", "%r8w": "%r8[0:16]", "%sil": "%rsi[0:8]",
		"%cx": "%rcx[0:16]", "%dl": "%rdx[0:8]", "%ah": "%rax[8:16]", "%r15": "%r15", "%xmm0": "vector %xmm0", "%xmm31": "vector %xmm31",
		"%st": "vector %st(0)[0:80]", "%st(1)": "vector %st(1)",
		"$5": "5", "$-1": "-1", "$0": "0", "$1099511627776": "1099511627776", "$18446744073709551615": "-1", "$0x10": "16",
		"$-9223372036854775808": "-9223372036854775808", "$counter": "counter", "$counter+8": "counter + 8",
		"(%rsp)": "*(%rsp)", "-148(%rbp)": "*(%rbp + -148)", "4096(%r8)": "*(%r8 + 4096)", "0(%rax)": "*(%rax)",
		"8(%r8,%r12,8)": "*(%r8 + %r12*8 + 8)", "(%rax,%r9,4)": "*(%rax + %r9*4)", "-56(%rsp,%r9)": "*(%rsp + %r9*1 + -56)",
		"-8(%rbp, %rax, 4)": "*(%rbp + %rax*4 + -8)", "(,%rax,8)": "*(%rax*8)", "table(,%rax,8)": "*(table + %rax*8)",
		"16+table(,%rax,8)": "*(table + %rax*8 + 16)", "0x20(%rax)": "*(%rax + 32)",
		"global(%rip)": "*(global)", "4096+gb(%rip)": "*(gb + 4096)", "gb+4096(%rip)": "*(gb + 4096)", "gb-8+4(%rip)": "*(gb + -4)",
		"global": "*(global)", "gb+4": "*(gb + 4)", ".LC0(%rip)": "*(.LC0)", "_ZN3foo3barE(%rip)": "*(_ZN3foo3barE)", "f.part.0(%rip)": "*(f.part.0)",
	},
	elf.EM_386: {
		"%eax": "%eax", "%si": "%esi[0:16]", "%dl": "%edx[0:8]", "$-1": "-1", "$99": "99", "-112(%ebp)": "*(%ebp + -112)",
		"116(%esp)": "*(%esp + 116)", "(%eax,%ebx,4)": "*(%eax + %ebx*4)", "global": "*(global)", "4+global": "*(global + 4)",
		"table(,%eax,4)": "*(table + %eax*4)", "%xmm7": "vector %xmm7",
	},
	elf.EM_AARCH64: {
		"x0": "x0", "w30": "x30[0:32]", "sp": "sp", "5": "5", "-1": "-1", "1099511627776": "1099511627776", "#7": "7", "xzr": "0", "wzr": "0",
		"[sp]": "*(sp)", "[sp, 44]": "*(sp + 44)", "[sp, #8]": "*(sp + 8)", "[x29,-16]": "*(x29 + -16)", "[x6, x5]": "*(x6 + x5*1)",
		"[x6, x5, lsl 3]": "*(x6 + x5*8)", "[x6, x5, lsl #2]": "*(x6 + x5*4)", "[sp, 0]": "*(sp)",
		"d0": "vector v0[0:64]", "s31": "vector v31[0:32]", "v3": "vector v3", "q3": "vector v3[0:128]",
	},
	elf.EM_ARM: {
		"r0": "r0", "ip": "r12[0:32]", "lr": "lr", "fp": "r11[0:32]", "#5": "5", "#-1": "-1", "#0": "0", "[r10]": "*(r10)", "[r7, #-8]": "*(r7 + -8)",
		"[sp, #88]": "*(sp + 88)", "[r3, r2]": "*(r3 + r2*1)", "[r3, r2, lsl #2]": "*(r3 + r2*4)", "d7": "vector d7", "s1": "vector d0[32:64]",
	},
	elf.EM_RISCV: {
		"a0": "a0", "x10": "a0[0:64]", "t6": "t6", "x31": "t6[0:64]", "fp": "s0[0:64]", "5": "5", "-1": "-1", "zero": "0", "x0": "0",
		"8(sp)": "*(sp + 8)", "-24(s0)": "*(s0 + -24)", "0(a5)": "*(a5)", "fa0": "vector fa0", "f10": "vector fa0[0:64]", "fs2": "vector fs2",
		"f18": "vector fs2[0:64]", "ft11": "vector ft11", "f31": "vector ft11[0:64]",
	},
	elf.EM_S390: {
		"%r2": "%r2", "5": "5", "-1": "-1", "332(%r11)": "*(%r11 + 332)", "160(%r15)": "*(%r15 + 160)", "0(%r1)": "*(%r1)",
		"8(%r1,%r2)": "*(%r2 + %r1*1 + 8)", "%f0": "vector %f0", "%v31": "vector %v31",
	},
	elf.EM_PPC64: {
		"3": "r3[0:64]", "%r3": "r3[0:64]", "r31": "r31", "i5": "5", "i-1": "-1", "i0": "0", "i1099511627776": "1099511627776",
		"0(27)": "*(r27[0:64])", "96(1)": "*(r1[0:64] + 96)", "-8(%r1)": "*(r1[0:64] + -8)", "f1": "vector f1", "%f1": "vector f1[0:64]",
		"vs34": "vector vs34",
	},
}

// refused are operands that have no meaning, or more than one.
var refused = map[elf.Machine]map[string]string{
	elf.EM_X86_64: {
		"%fs:tls@tpoff": "memory of the segment %fs", "%fs:(%rax)": "segment", "global@GOTPCREL(%rip)": `relocation "@GOTPCREL" of global`, "sym@\x1b[7m(%rip)": `relocation "@\x1b[7m" of sym`,
		"8(%rip)": "an instruction that is not there", "%rip": "no such register", "5": "not relocated", "rdi": "without %", "eax": "without %", "%RDI": "no such register",
		"%r16": "no such register", "%r8x": "", "()": `"" is not a general register`, "8()": "", "8(rsp)": "", "8(%esp)": "bits of an address", "(%rsp": "closed",
		"%rsp)": "", "(%rax,%rsp)": "cannot be an index", "(%rax,%rbx,3)": "scale", "(%rax,%rbx,16)": "scale", "(%rax,,4)": "", "(,)": "",
		"(%rax,%rbx,4,5)": "4 parts", "(%xmm0)": "", "%cr0": "", "%ds": "", "*8(%rsp)": "", "+8(%rsp)": "", "8 (%rsp)": "", "8(%rsp))": "",
		"((%rsp))": "", "007(%rsp)": "", "$007": "", "1_0(%rsp)": "", "18446744073709551616(%rsp)": "", "$": "missing", "$$": "", "$5a": "",
		"a+b(%rip)": "", "a-b(%rip)": "", "-a(%rip)": "", "8-(%rsp)": "", "--8(%rsp)": "", "DWORD PTR [rsp]": "", "{%k1}": "",
	},
	elf.EM_386: {
		"%rax": "", "%r8d": "", "%sil": "", "(%rax)": "", "%xmm8": "", "global(%rip)": "", "%gs:0": "segment",
	},
	elf.EM_AARCH64: {
		"x31": "", "x-1": "", "x00": "", "pc": "", "lr": "", "global": "not a number", "[sp": "closed", "sp]": "", "[]": "", "[sp,]": "",
		"[,8]": "", "[sp, 8]!": "", "[sp], 8": "", "[sp, #]": "", "[w0, 8]": "bits of an address", "[wsp]": "bits of an address", "[%rsp]": "", "[sp, +8]": "", "[sp, 8, 8]": "",
		"[x0, w1, sxtw 3]": "", "[x0, w1, uxtw]": "", "[x0, sp]": "", "[x0, #:lo12:sym]": "", "[x0, :lo12:sym]": "", "[[sp]]": "",
		"[x0, x1, lsl 32]": "", "[x0, x1, lsl -1]": "", "[x0, x1, x2, x3]": "", "#": "", "##5": "", "[xzr]": "", "010": "leading zero",
		"[v0]": "", "v32": "",
	},
	elf.EM_ARM: {
		"global": "not a number", "[pc, #8]": "an instruction that is not there", ".LC0+4": "", "r16": "", "[r0, #:lower16:x]": "", "x0": "",
		"[r0]!": "", "d32": "",
	},
	elf.EM_RISCV: {"%a0": "", "a8": "", "x32": "", "(sp": "closed", "8(zero)": "", "%lo(sym)(a0)": "", "sym(a0)": "symbol sym", "8(a0,a1)": "index", "sym": ""},
	elf.EM_S390:  {"%r16": "", "8(%r0)": "stands for 0 in an address", "8(,%r2)": "", "8(%r1,%r2,%r3)": "", "sym": "", "sym(%r1)": "symbol", "%a0": "", "r2": ""},
	elf.EM_PPC64: {
		"sym@toc@l(9)": `relocation "@toc@l" of sym`, "sym@l(9)": "relocation", "sym": "neither", "32": "", "8(0)": "stands for 0 in an address", "3,4": "",
		"8(3,4)": "index", "i": "", "ix": "", "-1": "", "cr0": "", "sym(2)": "symbol",
	},
}

func TestOperands(t *testing.T) {
	for machine, operands := range samples {
		for text, want := range operands {
			o, err := parseOperand(machine, text)
			require.NoError(t, err, "%v %s", machine, text)
			require.Equal(t, want, show(o), "%v %s", machine, text)
			require.Equal(t, text, o.Text)
		}
	}
	for machine, operands := range refused {
		for text, want := range operands {
			o, err := parseOperand(machine, text)
			require.ErrorContains(t, err, want, "%v %s: %s", machine, text, show(o))
			require.Equal(t, Operand{Text: text}, o)
		}
	}
}

// checkArg checks what holds of every argument.
func checkArg(t *testing.T, a Arg) {
	o := a.Operand
	if a.Err != nil {
		require.True(t, o.Kind == OperandUnknown || a.Size != 8)
	}
	if o.Kind == OperandUnknown {
		require.Error(t, a.Err)
		require.Equal(t, Operand{Text: o.Text}, o)
		return
	}
	require.Equal(t, o.Index.Name != "", o.Scale > 0)
	switch o.Kind {
	case OperandRegister, OperandVector:
		require.NotEmpty(t, o.Base.Full)
		require.Positive(t, o.Base.Bits)
		require.Equal(t, Operand{Kind: o.Kind, Base: o.Base, Text: o.Text}, o)
	case OperandMemory:
		require.True(t, o.Base.Name != "" || o.Index.Name != "" || o.Symbol != "")
	case OperandConstant:
		require.Equal(t, Operand{Kind: OperandConstant, Symbol: o.Symbol, Displacement: o.Displacement, Text: o.Text}, o)
	}
}

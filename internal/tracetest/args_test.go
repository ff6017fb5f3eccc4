//go:build linux

package tracetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseArgs(t *testing.T) {
	for s, want := range map[string][]Arg{
		"":                              nil,
		"8@%rdi":                        {{8, "%rdi"}},
		"-4@%esi 1@%dl -2@8(%rsp)":      {{-4, "%esi"}, {1, "%dl"}, {-2, "8(%rsp)"}},
		"8@x0 -1@[sp, 8] 4@[x29,-16]":   {{8, "x0"}, {-1, "[sp, 8]"}, {4, "[x29,-16]"}},
		"-8@-8(%rbp, %rax, 4) -4@$5":    {{-8, "-8(%rbp, %rax, 4)"}, {-4, "$5"}},
		"8@%rdi 8@%rsi 8@counter(%rip)": {{8, "%rdi"}, {8, "%rsi"}, {8, "counter(%rip)"}},
	} {
		got, err := ParseArgs(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{
		" ", "8", "8@", "@%rdi", "@", "%rdi", "3@%rdi", "16@%rdi", "0@%rdi", "-0@%rdi", "+4@%rdi", "04@%rdi", "-@%rdi", "--4@%rdi",
		"4f@%xmm0", "-8f@%xmm0", "8@%rdi ", " 8@%rdi", "8@%rdi  8@%rsi", "8@%rdi\t8", "x@y", "8@%rdi,8", "1e0@%rdi",
	} {
		if s == "8@%rdi\t8" || s == "8@%rdi,8" {
			// One argument with an operand that is none: for ParseOperand to refuse.
			args, err := ParseArgs(s)
			require.NoError(t, err)
			_, err = ParseOperand(args[0].Operand)
			require.Error(t, err, s)
			continue
		}
		_, err := ParseArgs(s)
		require.Error(t, err, "%q", s)
	}
}

func TestParseOperand(t *testing.T) {
	for s, want := range map[string]Operand{
		"%rdi":       {Register: "%rdi"},
		"%eax":       {Register: "%eax"},
		"%r10b":      {Register: "%r10b"},
		"%sil":       {Register: "%sil"},
		"(%rsp)":     {Register: "%rsp", Memory: true},
		"8(%rsp)":    {Register: "%rsp", Memory: true, Displacement: 8},
		"-24(%rbp)":  {Register: "%rbp", Memory: true, Displacement: -24},
		"x0":         {Register: "x0"},
		"w30":        {Register: "w30"},
		"sp":         {Register: "sp"},
		"[sp]":       {Register: "sp", Memory: true},
		"[sp, 8]":    {Register: "sp", Memory: true, Displacement: 8},
		"[x29,-16]":  {Register: "x29", Memory: true, Displacement: -16},
		"[sp, -0]":   {Register: "sp", Memory: true},
		"007(%rsp)":  {Register: "%rsp", Memory: true, Displacement: 7},
		"[x9, 4096]": {Register: "x9", Memory: true, Displacement: 4096},
	} {
		got, err := ParseOperand(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{
		"", " ", "%", "rdi", "%rip", "%ah", "%xmm0", "%rdi ", "%RDI", "%r16", "%r8x", "$5", "5", "-5", "%fs:8", "(%rsp", "%rsp)", "()", "8()",
		"8(rsp)", "8(sp)", "8(x0)", "8(%esp)", "8(%rax,%rbx,4)", "(,%rbx,4)", "8(%rip)", "sym(%rip)", "sym+8(%rbp)", "%fs:8(%rbp)", "*8(%rsp)",
		"+8(%rsp)", "0x8(%rsp)", "8 (%rsp)", " 8(%rsp)", "8(%rsp))", "((%rsp))", "8((%rsp)", "9223372036854775808(%rsp)", "1_0(%rsp)",
		"x31", "x-1", "x00", "xzr", "wsp", "pc", "lr", "[sp", "sp]", "[]", "[sp,]", "[sp, ]", "[,8]", "[sp, 8]!", "[sp], 8", "[sp,  8]", "[sp, #8]",
		"[sp, x0]", "[w0, 8]", "[%rsp, 8]", "[%rsp]", "[sp, +8]", "[sp, 8, 8]", "[[sp]]", "[sp, 99999999999999999999]", "[sp)", "(%rsp]",
	} {
		_, err := ParseOperand(s)
		require.Error(t, err, "%q", s)
	}
}

func FuzzParseArgs(f *testing.F) {
	f.Add("-4@%esi 8@8(%rsp) 1@[sp, 8] 8@x0 -4@$5 8@-8(%rbp, %rax, 4)")
	f.Add(" @@ [")
	f.Fuzz(func(t *testing.T, s string) {
		args, err := ParseArgs(s)
		if err == nil {
			var words []string
			for _, a := range args {
				words = append(words, a.String())
				checkOperand(t, a.Operand)
			}
			// Nothing is lost or made up.
			require.Equal(t, s, strings.Join(words, " "))
		}
		checkOperand(t, s)
	})
}

func checkOperand(t *testing.T, s string) {
	o, err := ParseOperand(s)
	if err != nil {
		return
	}
	_, ok := lookupRegister(o.Register)
	require.True(t, ok)
	require.True(t, o.Memory || o.Displacement == 0)
}

//go:build linux

package function

import (
	"debug/elf"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gosource"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made returns types as DWARF describes them.
func made(t *testing.T) map[string]*goType {
	all := map[string]*goType{}
	add := func(name string, kind reflect.Kind, size int64, fields ...goField) {
		all[name] = &goType{name: name, kind: kind, size: size, fields: fields}
		require.NoError(t, all[name].check())
	}
	add("bool", reflect.Bool, 1)
	add("int32", reflect.Int32, 4)
	add("int", reflect.Int, 8)
	add("string", reflect.String, 16)
	add("[]int", reflect.Slice, 24)
	add("*T", reflect.Pointer, 8)
	add("pair", reflect.Struct, 16, goField{"X", all["int"], 0}, goField{"Y", all["int"], 8})
	add("padded", reflect.Struct, 24, goField{"Flag", all["bool"], 0}, goField{"Name", all["string"], 8})
	add("outer", reflect.Struct, 32, goField{"pair", all["pair"], 0}, goField{"P", all["*T"], 16}, goField{"S", all["int32"], 24})
	all["[3]int"] = &goType{name: "[3]int", kind: reflect.Array, size: 24, count: 3, elem: all["int"]}
	require.NoError(t, all["[3]int"].check())
	return all
}

// TestFit: the pieces of a location are assigned to the parts of a type, and what does not say which part it is, or does not fit, is refused.
func TestFit(t *testing.T) {
	const gone = "optimized out here"
	const part = "its location has one part of its type, but not which"
	const unfit = "its location does not fit its type"
	types := made(t)
	for _, c := range []struct {
		typ, expression string // of DWARF, in hexadecimal
		fixed           bool
		want            string // the operands of its parts, or the error
	}{
		{"int", "50", false, "%rax"},
		{"int", "9108", false, "24(%rsp)"},
		{"int", "9178", false, "8(%rsp)"}, // -8
		{"int", "9c", true, "16(%rsp)"},
		{"int", "9009", false, "%r9"},
		{"int", "", false, gone},
		{"int", "0308000000", true, "its location has the operation 0x3"},
		{"string", "539308529308", false, "%rbx %rcx"},
		{"string", "5393089308", false, "%rbx -"},
		{"string", "93089308", false, gone},
		{"string", "9108", true, "24(%rsp) 32(%rsp)"},
		{"string", "9108", false, part},
		{"string", "53", false, unfit},
		{"string", "910893089110930891189308", false, unfit}, // three pieces
		{"string", "5393089108", false, unfit},
		{"[]int", "53", false, unfit},
		{"[]int", "910893085293089308", false, "24(%rsp) %rcx -"},
		{"padded", "509301539308529308", false, "%rax %rbx %rcx"},
		{"padded", "50930191109310", false, "%rax 32(%rsp) 40(%rsp)"},
		{"padded", "509308539308529308", false, unfit},
		{"pair", "50931053930152", false, unfit},
		{"pair", "509310", false, unfit}, // a register has no two parts
		{"pair", "91089310", false, "24(%rsp) 32(%rsp)"},
		{"[3]int", "9108", true, "24(%rsp)"},
		{"[3]int", "9108", false, part},
		{"[3]int", "509308519308529308", false, unfit},
		{"int", "67", false, ""}, // DWARF's register 23 has no name here: %xmm6
	} {
		b, err := hex.DecodeString(c.expression)
		require.NoError(t, err)
		l := &local{machine: elf.EM_X86_64, frame: 16}
		all, err := pieces(b)
		if err == nil {
			err = l.fit(types[c.typ], all, c.fixed)
		}
		if err != nil {
			assert.Equal(t, c.want, err.Error(), "%v", c)
			continue
		}
		var got []string
		parts, splits := types[c.typ].leaves(0, nil)
		if !splits {
			parts = []leaf{{}}
		}
		for _, p := range parts {
			text := l.operand(abis[elf.EM_X86_64], p.offset).Text
			if text == "" {
				text = "-"
			}
			got = append(got, text)
		}
		if c.want == "" {
			c.want = "%xmm6"
		}
		assert.Equal(t, c.want, strings.Join(got, " "), "%v", c)
	}
}

// TestPart: a part of a variable that is reached through a pointer is not in it, and what is no field can be a method.
func TestPart(t *testing.T) {
	types := made(t)
	for _, c := range []struct {
		typ, part, method string
		inside            bool
	}{
		{"pair", ".X", "", true},
		{"pair", ".Reset", "Reset", true},
		{"outer", ".pair.Y", "", true},
		{"outer", ".Y", "", true}, // of the embedded struct
		{"outer", ".pair.Reset", "Reset", true},
		{"outer", ".P", "", true},
		{"outer", ".P.A", "", false},
		{"*T", ".A", "", false},
		{"[]int", ".[]", "", false},
		{"[3]int", ".[]", "", true},
		{"[]int", ".Push", "Push", true},
		{"int", ".Add", "Add", true},
	} {
		_, method, inside := types[c.typ].part(gosource.Part(c.part))
		assert.Equal(t, c.method, method, "%v", c)
		assert.Equal(t, c.inside, inside, "%v", c)
	}
}

// TestEffects: what instructions do to registers and to the stack is known. The instructions are those of the assembler.
func TestEffects(t *testing.T) {
	type want struct {
		unknown      bool
		registers    uint64
		calls        bool
		callee       uint64
		stack        bool
		offset, size int64
	}
	bits := func(numbers ...int) (all uint64) {
		for _, n := range numbers {
			all |= 1 << n
		}
		return all
	}
	x86 := []struct {
		text string
		want want
	}{
		{"movq %rax, %rbx", want{registers: bits(3)}},
		{"movl %eax, %r9d", want{registers: bits(9)}},
		{"movb %al, %ah", want{registers: bits(0)}},
		{"cmpq %rax, %rbx", want{}},
		{"testq %rax, %rbx", want{}},
		{"movq %rax, 0x28(%rsp)", want{stack: true, offset: 0x28, size: 8}},
		{"movb $1, 0x28(%rsp)", want{stack: true, offset: 0x28, size: 1}},
		{"movups %xmm15, 0x40(%rsp)", want{stack: true, offset: 0x40, size: 16}},
		{"movq %rax, 0x28(%rsp,%rcx,8)", want{stack: true, offset: 0x28, size: maxSize}},
		{"incq 0x28(%rsp)", want{stack: true, offset: 0x28, size: 8}},
		{"cmpq $1, 0x28(%rsp)", want{}},
		{"leaq 0x28(%rsp), %rdx", want{registers: bits(1), stack: true, offset: 0x28}},
		{"movq 0x28(%rsp), %rdi", want{registers: bits(5)}},
		{"movq %rax, 0x28(%rbx)", want{}},
		{"xchgq %rax, %rsi", want{registers: bits(0, 4)}},
		{"imulq %rcx", want{registers: bits(0, 1, 2)}},
		{"idivq %rcx", want{registers: bits(0, 1, 2)}},
		{"cqto", want{registers: bits(1)}},
		{"rep movsq", want{registers: bits(2, 4, 5)}},
		{"lock cmpxchgq %rdx, (%rbx)", want{registers: bits(0)}},
		{"movsd %xmm1, %xmm2", want{registers: bits(19)}},
		{"setl %cl", want{registers: bits(2)}},
		{"call .+25", want{calls: true, callee: 25}},
		{"jmp .+5", want{}},
		{"nop", want{}},
	}
	for _, c := range x86 {
		e := effectX86(assembled(t, "gcc", c.text))
		assert.Equal(t, c.want, want(e), c.text)
	}
	assert.True(t, effectX86(assembled(t, "gcc", "shlx %rax, %rbx, %rcx")).unknown)
	arm64 := []struct {
		text string
		want want
	}{
		{"mov x1, x2", want{registers: bits(1)}},
		{"add x3, x4, #8", want{registers: bits(3)}},
		{"add x3, sp, #40", want{registers: bits(3), stack: true, offset: 40}},
		{"add x3, sp, #1, lsl #12", want{registers: bits(3), stack: true, offset: 4096}},
		{"str x5, [x3], #8", want{registers: bits(3)}},
		{"ldr x5, [x3, #8]!", want{registers: bits(3, 5)}},
		{"str x5, [sp, #40]", want{stack: true, offset: 40, size: 8}},
		{"str w5, [sp, #40]", want{stack: true, offset: 40, size: 4}},
		{"strb w5, [sp, #41]", want{stack: true, offset: 41, size: 1}},
		{"stur x5, [sp, #-8]", want{stack: true, offset: -8, size: 8}},
		{"str q5, [sp, #32]", want{stack: true, offset: 32, size: 16}},
		{"str d5, [sp, #32]", want{stack: true, offset: 32, size: 8}},
		{"stp x5, x6, [sp, #32]", want{stack: true, offset: 32, size: 16}},
		{"stp x29, x30, [sp, #-8]", want{stack: true, offset: -8, size: 16}},
		{"ldr x7, [sp, #16]", want{registers: bits(7)}},
		{"ldrsw x7, [x1]", want{registers: bits(7)}},
		{"ldp x7, x8, [x1]", want{registers: bits(7, 8)}},
		{"str x5, [x1, #40]", want{}},
		{"bl .+8", want{calls: true, callee: 8}},
		{"blr x3", want{calls: true}},
		{"b .+8", want{}},
		{"cbz x3, .+8", want{}},
		{"b.ne .+8", want{}},
		{"nop", want{}},
	}
	for _, c := range arm64 {
		e := effectARM64(assembled(t, "clang -target aarch64-linux-gnu", c.text))
		assert.Equal(t, c.want, want(e), c.text)
	}
}

// assembled returns the code of an instruction.
func assembled(t *testing.T, compiler, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	source, object := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.o")
	require.NoError(t, os.WriteFile(source, []byte(text+"\nnop\nnop\nnop\nnop\n"), 0o600))
	words := append(strings.Fields(compiler), "-c", "-o", object, source)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := elf.Open(object)
	require.NoError(t, err)
	defer f.Close()
	code, err := f.Section(".text").Data()
	require.NoError(t, err)
	return code
}

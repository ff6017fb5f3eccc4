//go:build linux

package function

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const program = `package main

import "os"

type pair struct{ a int8; b string }

//go:noinline
func leaf(n int) int {
	return n * 2 // its first instruction
}

//go:noinline
func recursive(n int) int {
	if n == 0 { return 0 }
	return recursive(n-1) + 1
}

func inlined(s string) bool { return os.Getenv(s) != "" }

//go:noinline
func (p *pair) method(_ int, q pair, xs []string, err error, f float64) (n int, s string) {
	if inlined(q.b) || recursive(len(xs)) > 3 { return 1, "x" }
	return 2, q.b
}

//go:noinline
func generic[T any](v T, n int) T { recursive(n); return v }

func main() {
	p := &pair{}
	n, _ := p.method(1, pair{}, os.Args, nil, 1)
	if inlined("a") { n++ }
	println(leaf(n), generic("s", n), generic(1, n))
}
`

// built builds the source for a machine, and opens it.
func built(t *testing.T, goarch string, flags ...string) *Program {
	t.Helper()
	return builtFrom(t, program, goarch, flags...)
}

func builtFrom(t *testing.T, source, goarch string, flags ...string) *Program {
	t.Helper()
	f, err := os.Open(compile(t, source, goarch, flags...))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	p, err := Open(f, nil)
	require.NoError(t, err)
	return p
}

// compile builds a source, and returns the path of the program.
func compile(t *testing.T, source, goarch string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	cmd := exec.Command("go", append(append([]string{"build", "-o", filepath.Join(dir, "program")}, flags...), path)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOARCH="+goarch)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "program")
}

// find returns the functions that a pattern selects, with their arguments.
func find(p *Program, pattern spec.Pattern) ([]*Function, error) {
	fns, err := p.Find(pattern, MaxMatches)
	p.Describe(fns)
	return fns, err
}

// one returns the function that a pattern selects.
func one(t *testing.T, p *Program, pattern spec.Pattern) *Function {
	t.Helper()
	fns, err := find(p, pattern)
	require.NoError(t, err)
	require.Len(t, fns, 1)
	return fns[0]
}

// returns returns the return instructions of a function.
func returns(t *testing.T, fn *Function) []Site {
	t.Helper()
	all, err := fn.Returns()
	require.NoError(t, err)
	return all
}

func operands(args []Arg) string {
	var all []string
	for _, a := range args {
		text := a.Name + "@" + a.Operand.Text
		if a.Length != nil {
			text += "+" + a.Length.Text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestSelect: functions, the places at which they are probed, and the operands of their arguments.
func TestSelect(t *testing.T) {
	for _, c := range []struct {
		goarch            string
		checked, leaf     Place
		method, returned  string
		instance, instant string
		capacity          string
	}{
		{
			"amd64", AtPush, AtEntry, "p@%rax arg1@%rbx q.a@%rcx q.b@%rdi+%rsi len(xs)@%r9 err@8(%rsp) f@%xmm0", "n@%rax s@%rbx+%rcx",
			"v@%rbx+%rcx n@%rdi", "ret0@%rax+%rbx", "%r10",
		},
		{
			"arm64", AtBranch, AtEntry, "p@x0 arg1@x1 q.a@x2 q.b@x3+x4 len(xs)@x6 err@x8 f@v0", "n@x0 s@x1+x2",
			"v@x1+x2 n@x3", "ret0@x0+x1", "x7",
		},
	} {
		t.Run(c.goarch, func(t *testing.T) {
			p := built(t, c.goarch)
			method := one(t, p, "main.(*pair).method")
			assert.Equal(t, c.method, operands(method.Args))
			assert.Equal(t, c.returned, operands(method.Results))
			pointer := method.Args[0].Operand.Text
			assert.Equal(t, fmt.Sprintf("p.a@0(*%[1]s) p.b@8(*%[1]s)+16(*%[1]s) cap(xs)@%[2]s", pointer, c.capacity), operands(method.Fields))
			assert.Equal(t, "(p *main.pair, arg1 int, q main.pair, xs []string, err error, f float64) (n int, s string)", method.Signature)
			assert.Equal(t, c.checked, method.Place)
			assert.Greater(t, method.Call.Address, method.Entry)
			assert.Empty(t, method.returns, "the code is read when somebody asks")
			assert.NotEmpty(t, returns(t, method))
			leaf := one(t, p, "main.leaf")
			assert.Equal(t, c.leaf, leaf.Place)
			assert.Equal(t, leaf.Entry, leaf.Call.Address)
			assert.Len(t, returns(t, leaf), 1)
			instance := one(t, p, "main.generic[go.shape.string]")
			assert.Equal(t, c.instance, operands(instance.Args))
			assert.Equal(t, c.instant, operands(instance.Results))
			fns, err := p.Find("main.*", 6)
			require.NoError(t, err)
			assert.Len(t, fns, 6)
			for _, fn := range fns {
				declared := strings.Split(program, "\n")[fn.Line-1]
				assert.Contains(t, declared, "func ", fn.Name)
				assert.True(t, strings.HasSuffix(fn.File, "main.go"), "%s is in %s", fn.Name, fn.File)
			}
			_, err = find(p, "main.inlined")
			assert.ErrorIs(t, err, ErrInlined)
			assert.ErrorContains(t, err, "in 2 functions at least: main.(*pair).method, main.main")
			_, err = find(p, "main.(*pair).mehtod")
			assert.ErrorContains(t, err, "there is main.(*pair).method")
			_, err = find(p, "main.Recur*")
			assert.ErrorContains(t, err, "there is main.recursive")
			_, err = find(p, "main.(*pear).Method")
			assert.ErrorContains(t, err, "there is main.(*pair).method")
			_, err = find(p, "main.method")
			assert.EqualError(t, err, "there is no function main.method, unless all calls of it are inlined or the linker has dropped it; there is main.(*pair).method")
			_, err = find(p, "*")
			assert.ErrorContains(t, err, "at most 500")
			fns, err = p.Find("*", 1<<16)
			require.NoError(t, err)
			assert.Greater(t, len(fns), MaxMatches)
		})
	}
}

// nested returns the source of a program whose function takes a struct that is nested a number of levels deep.
func nested(levels int) string {
	var b strings.Builder
	b.WriteString("package main\n\ntype L0 struct{ N [40]int }\n")
	for i := range levels {
		fmt.Fprintf(&b, "type L%d struct{ V L%d }\n", i+1, i)
	}
	fmt.Fprintf(&b, "//go:noinline\nfunc f(n int, big L%d, b bool, s string) (m int, e error) { return n + big%s.N[n], nil }\n", levels, strings.Repeat(".V", levels))
	fmt.Fprintf(&b, "func main() { println(f(1, L%d{}, true, \"\")) }\n", levels)
	return b.String()
}

// TestNesting: a deep struct has its fields. One that is too deep to be described hides no other parameter, because it is on the
// stack, whatever it consists of.
func TestNesting(t *testing.T) {
	for goarch, want := range map[string]string{
		"amd64": "n@%%rax big%s@ b@%%rbx s@%%rcx+%%rdi", "arm64": "n@x0 big%s@ b@x1 s@x2+x3",
	} {
		for _, levels := range []int{10, 40} {
			fn := one(t, builtFrom(t, nested(levels), goarch), "main.f")
			require.NoError(t, fn.ArgsErr)
			name := strings.Repeat(".V", levels) + ".N"
			if levels == 40 { // each is two deep, as a name and as a struct
				name = ""
				assert.ErrorIs(t, fn.Args[1].Err, errNesting)
			}
			assert.Equal(t, fmt.Sprintf(want, name), operands(fn.Args), levels)
			assert.Len(t, fn.Results, 2)
		}
	}
}

// TestManyParts: a struct that consists of too many is not described, and hides no other parameter.
func TestManyParts(t *testing.T) {
	wide := strings.NewReplacer("{ V L", "{ V, W L", "[40]int", "[8]int8", "n + big"+strings.Repeat(".V", 16)+".N[n]", "n").Replace(nested(16))
	p := builtFrom(t, wide, "amd64")
	fn := one(t, p, "main.f")
	require.NoError(t, fn.ArgsErr)
	assert.ErrorIs(t, fn.Args[1].Err, errParts)
	assert.Equal(t, "n@%rax big@ b@%rbx s@%rcx+%rdi", operands(fn.Args))
	assert.Greater(t, p.debug.types.entries.Left, typeWork-1<<12, "each type is read once")
}

// TestSmallUndescribed: a type that may be in registers is not left out, because the places of the others depend on it.
func TestSmallUndescribed(t *testing.T) {
	small := strings.ReplaceAll(strings.ReplaceAll(nested(40), "[40]int", "int"), ".N[n]", ".N")
	fn := one(t, builtFrom(t, small, "amd64"), "main.f")
	assert.ErrorIs(t, fn.ArgsErr, errNesting)
	assert.ErrorContains(t, fn.ArgsErr, `the parameter "big"`)
}

// TestRangeBody: the body of a loop over a function returns a bool, which DWARF does not list.
func TestRangeBody(t *testing.T) {
	const source = `package main

func seq(yield func(int) bool) { _ = yield(1) && yield(2) }

//go:noinline
func loop() (sum int) {
	for n := range seq {
		sum += n
		if n == 3 { return 0 }
		defer println(n)
	}
	return sum
}

func main() { println(loop()) }
`
	fn := one(t, builtFrom(t, source, "amd64"), "main.loop-range1")
	assert.Equal(t, "(n int) (ret0 bool)", fn.Signature)
	assert.Equal(t, "ret0@%rax", operands(fn.Results))
}

// TestStripped: without DWARF there are calls and returns, also where addresses are not fixed.
func TestStripped(t *testing.T) {
	p := built(t, "amd64", "-ldflags=-s -w", "-buildmode=pie")
	method := one(t, p, "main.(*pair).method")
	assert.Equal(t, AtPush, method.Place)
	assert.NotEmpty(t, returns(t, method))
	assert.Empty(t, method.Args)
	assert.ErrorIs(t, method.ArgsErr, errNoDWARF)
}

// TestSeparate: the arguments of a stripped program are those that its debug file describes. A file
// that has another function at an address describes nothing there.
func TestSeparate(t *testing.T) {
	arguments := func(p *Program) map[string]string {
		fns, err := find(p, "main.*")
		require.NoError(t, err)
		all := map[string]string{}
		for _, fn := range fns {
			all[fn.Name] = fmt.Sprint(fn.Signature, operands(fn.Args), operands(fn.Results), fn.ArgsErr)
		}
		return all
	}
	open := func(path string, separate Separate) *Program {
		f, err := os.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		p, err := Open(f, separate)
		require.NoError(t, err)
		return p
	}
	lend := func(path string) Separate {
		return func(_ *elf.File, use func(*elf.File)) error {
			debug, err := elf.Open(path)
			require.NoError(t, err)
			use(debug)
			return debug.Close()
		}
	}
	path := compile(t, program, "amd64")
	want := arguments(open(path, func(*elf.File, func(*elf.File)) error {
		assert.Fail(t, "the program has its own DWARF")
		return nil
	}))
	stripped := path + ".stripped"
	out, err := exec.Command(testenv.NeedsTool(t, "objcopy", "binutils"), "--strip-debug", path, stripped).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, want["main.leaf"], "(n int) (ret0 int)")
	require.Equal(t, want, arguments(open(stripped, lend(path))))

	renamed := compile(t, strings.ReplaceAll(program, "leaf", "loaf"), "amd64")
	leaf := one(t, open(stripped, lend(renamed)), "main.leaf")
	assert.ErrorIs(t, leaf.ArgsErr, errOther)
	assert.Empty(t, leaf.Args)
	assert.Empty(t, leaf.Signature)

	none := open(stripped, func(*elf.File, func(*elf.File)) error { return errors.New("there is no X") })
	assert.EqualError(t, one(t, none, "main.leaf").ArgsErr, errNoDWARF.Error()+"; there is no X")
}

// TestVersions: what depends on an unknown version of Go is refused.
func TestVersions(t *testing.T) {
	for version, want := range map[string]int{"go1.22.12": 22, "go1.27rc1": 27, "go1.26.8": 26, "go1.21.3": 0, "go1.28": 0, "devel go1.27-abc": 0, "go1.27-devel_0123abc": 0, "go1.26.1 X:foo": 0, "go1.26": 26, "xxx": 0, "": 0} {
		assert.Equal(t, want, Release(version), version)
	}
	p := built(t, "amd64")
	p.release, p.version = 0, "go1.99"
	assert.ErrorContains(t, one(t, p, "main.leaf").ArgsErr, `not by "go1.99"`)
}

// TestUnknownFormat: a program with a table that is not read says which release has built it.
func TestUnknownFormat(t *testing.T) {
	content, err := os.ReadFile(compile(t, program, "amd64"))
	require.NoError(t, err)
	file, err := elf.NewFile(bytes.NewReader(content))
	require.NoError(t, err)
	content[file.Section(".gopclntab").Offset] ^= 1
	_, err = Open(bytes.NewReader(content), nil)
	assert.ErrorIs(t, err, gotable.ErrFormat)
	assert.ErrorContains(t, err, fmt.Sprintf("the program was built by %q", runtime.Version()))
}

func TestFIPS(t *testing.T) {
	assert.True(t, isFIPS("crypto/internal/fips140.CAST"))
	assert.True(t, isFIPS("crypto/internal/fips140/sha256.(*Digest).Write"))
	assert.False(t, isFIPS("crypto/internal/fips140deps/godebug.Value"))
	assert.False(t, isFIPS("main.f"))
}

// TestVEX: instructions that x86asm does not know have their lengths. The bytes are those of the
// assembler.
func TestVEX(t *testing.T) {
	for _, code := range [][]byte{
		{0xc5, 0xf8, 0x77},                                     // VZEROUPPER
		{0xc5, 0xfe, 0x6f, 0x06},                               // VMOVDQU (SI), Y0
		{0xc5, 0xfe, 0x6f, 0x46, 0x20},                         // VMOVDQU 32(SI), Y0
		{0xc5, 0xfe, 0x6f, 0x84, 0x06, 0xe0, 0xff, 0xff, 0xff}, // VMOVDQU -32(SI)(AX*1), Y0
		{0xc4, 0xe2, 0xf9, 0xb8, 0xc1},                         // VFMADD231PD X1, X0, X0
		{0xc4, 0xe3, 0x7d, 0x46, 0xc1, 0x20},                   // VPERM2I128 $32, Y1, Y0, Y0
		{0xc4, 0xe2, 0xf3, 0xf7, 0xc0},                         // SHRXQ
		{0xc5, 0xf9, 0x70, 0xc1, 0x00},                         // VPSHUFD $0, X1, X0
		{0x62, 0xf1, 0x7c, 0x48, 0x10, 0x06},                   // VMOVUPS (SI), Z0
		{0x62, 0xf1, 0x7c, 0x48, 0x10, 0x46, 0x01},             // VMOVUPS 64(SI), Z0
	} {
		assert.Equal(t, len(code), vexLength(append(code[:len(code):len(code)], 0xc3, 0xc3, 0xc3, 0xc3)), "% x", code)
		offsets, err := returnsX86(append(code[:len(code):len(code)], 0xc3))
		require.NoError(t, err)
		assert.Equal(t, []uint64{uint64(len(code))}, offsets)
	}
	assert.Zero(t, vexLength([]byte{0x48, 0x89, 0xc3, 0xc3}))
}

// TestConstantsARM64: a constant in the code is no return, even if it looks like one.
func TestConstantsARM64(t *testing.T) {
	code := []byte{
		0x40, 0x00, 0x00, 0x58, // LDR X0, 8
		0xc0, 0x03, 0x5f, 0xd6, // RET
		0xc0, 0x03, 0x5f, 0xd6, 0, 0, 0, 0,
	}
	offsets, err := returnsARM64(code)
	require.NoError(t, err)
	assert.Equal(t, []uint64{4}, offsets)
}

// TestClosed: what was not read before is not read after the program was closed.
func TestClosed(t *testing.T) {
	p := built(t, "amd64")
	leaf, recursive := one(t, p, "main.leaf"), one(t, p, "main.recursive")
	all := returns(t, leaf)
	p.Close()
	assert.Equal(t, all, returns(t, leaf))
	_, err := recursive.Returns()
	assert.ErrorIs(t, err, fs.ErrClosed)
}

// TestSparseFunctions: a file that claims large tables costs no more than some memory.
func TestSparseFunctions(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Size: sparse.Size})
	_, err := file.WriteAt([]byte("\x00.gopclntab\x00"), 1<<20)
	require.NoError(t, err)
	sparse.Cost(t, func() {
		_, err := Open(file, nil)
		assert.Error(t, err)
	})
}

// FuzzProgram: no file makes looking for functions fail, or cost much.
func FuzzProgram(f *testing.F) {
	table := append(make([]byte, 96), "\x00.gopclntab\x00.debug_info\x00"...)
	copy(table, "\xf1\xff\xff\xff\x00\x00\x01\x08\x01")
	f.Add(sparse.Bytes(f, table, elf.Section64{Name: 96 + 1, Type: uint32(elf.SHT_PROGBITS)}, elf.Section64{Name: 96 + 12, Type: uint32(elf.SHT_PROGBITS)}))
	f.Fuzz(func(t *testing.T, file []byte) {
		sparse.Cost(t, func() {
			p, err := Open(bytes.NewReader(file), nil)
			if err != nil {
				return
			}
			for _, pattern := range []spec.Pattern{"*", "main.*", "main.main"} {
				_, _ = find(p, pattern)
			}
			p.NameOf(0x1000)
		})
	})
}

//go:build linux

package source

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/require"
)

const scoped = `package main

import "os"

var sink int

//go:noinline
func use(a ...any) { sink += len(a) }

func inner(v int, text string) int {
	w := v * len(text)
	if w > 3 {
		x := w + v
		use(x, w)
		return x
	}
	return w
}

//go:noinline
func outer(a int, b []string, c func() int) (n int, err error) {
	for i, one := range b {
		size := inner(i, one) + a
		use(size)
		n += size
	}
	large := [9]int{a}
	use(large)
	f := func(p int) int {
		q := a + p
		use(q)
		return q + n
	}
	n += f(c())
	return n, err
}

func main() {
	_, _ = outer(len(os.Args), os.Args, func() int { return sink })
}
`

// scopedProgram builds a program with variables, and returns its path.
func scopedProgram(t testing.TB, env string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(scoped), 0o600))
	cmd := exec.Command("go", append(append([]string{"build", "-o", "program"}, flags...), "main.go")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", env)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "program")
}

// outer returns the address behind a part of a function of the program.
func outer(t testing.TB, path string, part uint64) uint64 {
	t.Helper()
	symbols, err := opened(t, path).Symbols()
	require.NoError(t, err)
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "main.outer" })
	return symbols[i].Value + symbols[i].Size/part
}

// scopeReader finds variables with debug/dwarf.
type scopeReader struct {
	*testing.T
	*dwarf.Data
	*dwarf.Reader
}

// below returns the variables of the scope that was read last, those of the innermost function at an address. The name of the function
// comes first.
func (r *scopeReader) below(e *dwarf.Entry, pc uint64) []string {
	all := []string{r.described(e).Val(dwarf.AttrName).(string)}
	var innermost []string
	for {
		c, err := r.Next()
		require.NoError(r, err)
		if c.Tag == 0 {
			break
		}
		switch c.Tag {
		case dwarf.TagFormalParameter, dwarf.TagVariable:
			d := r.described(c)
			line, _ := d.Val(dwarf.AttrDeclLine).(int64)
			has := c.AttrField(dwarf.AttrLocation) != nil
			if expression, isFixed := c.Val(dwarf.AttrLocation).([]byte); isFixed {
				has = len(expression) > 0
			}
			all = append(all, fmt.Sprint(d.Val(dwarf.AttrName), " ", line, " ", d.Val(dwarf.AttrType), " ", has))
			r.SkipChildren()
			continue
		case dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock:
			ranges, err := r.Ranges(c)
			require.NoError(r, err)
			if slices.ContainsFunc(ranges, func(x [2]uint64) bool { return x[0] <= pc && pc < x[1] }) && c.Children {
				isFunction := c.Tag == dwarf.TagInlinedSubroutine
				if !isFunction {
					c = e
				}
				inside := r.below(c, pc)
				if isFunction || inside[0] != all[0] {
					innermost = inside
				} else {
					all = append(all, inside[1:]...)
				}
				continue
			}
		}
		r.SkipChildren()
	}
	if innermost != nil {
		return innermost
	}
	return all
}

// described returns the entry that has the name of a variable or a function.
func (r *scopeReader) described(e *dwarf.Entry) *dwarf.Entry {
	at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	if !ok {
		return e
	}
	other := r.Data.Reader()
	other.Seek(at)
	d, err := other.Next()
	require.NoError(r, err)
	return d
}

// TestVariables: the variables in scope are those that debug/dwarf finds, at all addresses of functions, by DWARF 4 and 5.
func TestVariables(t *testing.T) {
	for _, env := range []string{"", "GOEXPERIMENT=nodwarf5"} {
		f, err := elf.Open(scopedProgram(t, env))
		require.NoError(t, err)
		defer f.Close()
		data, err := f.DWARF()
		require.NoError(t, err)
		table, compared, located, most := New(f, NewBudget()), 0, 0, 0
		for r := data.Reader(); ; {
			e, err := r.Next()
			require.NoError(t, err)
			if e == nil {
				break
			}
			name, _ := e.Val(dwarf.AttrName).(string)
			if e.Tag != dwarf.TagSubprogram || name != "main.outer" && name != "main.main" && name != "main.outer.func1" {
				if e.Tag != dwarf.TagCompileUnit {
					r.SkipChildren()
				}
				continue
			}
			low, ok := e.Val(dwarf.AttrLowpc).(uint64)
			high, _ := e.Val(dwarf.AttrHighpc).(int64)
			if absolute, isAddress := e.Val(dwarf.AttrHighpc).(uint64); isAddress {
				high = int64(absolute - low)
			}
			for at := low; ok && at < low+uint64(high); at++ {
				s := scopeReader{t, data, data.Reader()}
				s.Seek(e.Offset)
				root, err := s.Next()
				require.NoError(t, err)
				want := s.below(root, at)[1:]
				all, optimized, err := table.Variables(at)
				require.NoError(t, err)
				require.True(t, optimized)
				got := []string{}
				for _, v := range all {
					got = append(got, fmt.Sprint(v.Name, " ", v.Line, " ", v.Type, " ", v.Ever))
					if v.Location != nil {
						located++
						require.True(t, v.Location.Fixed || v.Location.From <= at && at < v.Location.To)
					}
				}
				require.ElementsMatch(t, want, got, "%#x in %s", at, name)
				compared, most = compared+1, max(most, len(got))
			}
			r.SkipChildren()
		}
		require.Greater(t, compared, 300)
		require.Greater(t, located, compared)
		require.Greater(t, most, 6)
	}
}

// TestUnoptimized: the flag of the compiler is known.
func TestUnoptimized(t *testing.T) {
	path := scopedProgram(t, "", "-gcflags=-N -l")
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	all, optimized, err := New(f, NewBudget()).Variables(outer(t, path, 2))
	require.NoError(t, err)
	require.False(t, optimized)
	require.NotEmpty(t, all)
}

// TestHeldVariables: variables are read if the compressed sections that have them may be held.
func TestHeldVariables(t *testing.T) {
	path := scopedProgram(t, "")
	f := opened(t, path)
	var size int64
	for _, name := range []string{".debug_info", ".debug_loclists", ".debug_rnglists", ".debug_addr"} {
		if s := f.Section(name); s != nil {
			size += int64(s.Size)
		}
	}
	at := outer(t, path, 2)
	_, _, err := New(opened(t, path), NewBudgetFor(size)).Variables(at)
	require.ErrorIs(t, err, ErrVariables) // the lists of units have no room
	all, _, err := New(opened(t, path), NewBudgetFor(2*size)).Variables(at)
	require.NoError(t, err)
	require.NotEmpty(t, all)
}

// TestHostileVariables: no damage of the DWARF makes the search fail, or cost much.
func TestHostileVariables(t *testing.T) {
	for _, env := range []string{"", "GOEXPERIMENT=nodwarf5"} {
		path := scopedProgram(t, env, "-ldflags=-compressdwarf=false")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		at, random := outer(t, path, 2), rand.New(rand.NewPCG(79, 0))
		sections := opened(t, path)
		unit, err := unitOfAddress(opened(t, path), at)
		require.NoError(t, err)
		found, rounds := 0, 400
		for range rounds {
			damaged := slices.Clone(b)
			for range 1 + random.IntN(8) {
				s := sections.Section([]string{".debug_info", ".debug_abbrev", ".debug_loc", ".debug_loclists", ".debug_addr", ".debug_rnglists", ".debug_ranges"}[random.IntN(7)])
				if s == nil || s.Size == 0 {
					continue
				}
				from, size := s.Offset, s.Size
				if s.Name == ".debug_info" { // where the function is
					from, size = from+unit.offset, unit.end-unit.offset
				}
				damaged[from+random.Uint64N(size)] = byte(random.Uint32())
			}
			sparse.Cost(t, func() {
				f, err := elffile.New(bytes.NewReader(damaged))
				require.NoError(t, err)
				if all, _, _ := New(f, NewBudget()).Variables(at); len(all) > 0 {
					found++
				}
			})
		}
		require.Greater(t, found, rounds/20)
		require.Less(t, found, rounds)
	}
}

// unitOfAddress returns the unit with the code at an address.
func unitOfAddress(f *elf.File, at uint64) (*unit, error) {
	table := New(f, NewBudget())
	err := table.index()
	return table.code.at(at)[0], err
}

// FuzzVariables: no file makes the search fail, or cost much.
func FuzzVariables(f *testing.F) {
	for _, env := range []string{"", "GOEXPERIMENT=nodwarf5"} {
		path := scopedProgram(f, env, "-ldflags=-compressdwarf=false")
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		for _, part := range []uint64{2, 3, 5} {
			f.Add(b, outer(f, path, part))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, address uint64) {
		sparse.Cost(t, func() {
			opened, err := elffile.New(bytes.NewReader(file))
			if err != nil {
				return
			}
			if table := New(opened, NewBudget()); table != nil {
				_, _, _ = table.Variables(address)
			}
		})
	})
}

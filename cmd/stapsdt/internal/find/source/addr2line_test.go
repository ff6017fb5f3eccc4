//go:build linux

package source

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run runs a program of the toolchain.
func run(t testing.TB, name string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(testenv.NeedsTool(t, name, name), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return out
}

// compile builds the test program in C.
func compile(t testing.TB, compiler string, flags ...string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "inlined")
	run(t, compiler, append([]string{"-O2", "-o", program, "testdata/inlined.c"}, flags...)...)
	return program
}

// opened opens a file.
func opened(t testing.TB, file string) *elf.File {
	t.Helper()
	f, err := elf.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// addresses returns all addresses of functions of the program.
func addresses(t testing.TB, file string, names ...string) (all []uint64) {
	t.Helper()
	symbols, err := opened(t, file).Symbols()
	require.NoError(t, err)
	for _, s := range symbols {
		name, _, _ := strings.Cut(s.Name, ".")
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && slices.Contains(names, name) {
			for at := range s.Size {
				all = append(all, s.Value+at)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// symbolize returns what a tool says about addresses: a function and a position per line. Its
// arguments are as for addr2line.
func symbolize(t testing.TB, tool, file string, addresses []uint64) (all [][]string) {
	t.Helper()
	args, pkg := []string{"-a", "-i", "-f", "-e", file}, "binutils"
	if tool == "llvm-symbolizer" {
		args = []string{"--addresses", "--inlines", "--functions=linkage", "--no-demangle", "--output-style=GNU", "--obj=" + file}
		pkg = "llvm"
	}
	cmd := exec.Command(testenv.NeedsTool(t, tool, pkg), args...)
	var in bytes.Buffer
	for _, at := range addresses {
		fmt.Fprintf(&in, "%#x\n", at)
	}
	cmd.Stdin = &in
	out, err := cmd.Output()
	require.NoError(t, err)
	name := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "0x"):
			all = append(all, nil)
		case name == "":
			name = line
			if tool == "llvm-symbolizer" { // the name of the symbol, such as main.cold
				name, _, _ = strings.Cut(name, ".")
			}
		default:
			line, _, _ = strings.Cut(line, " (discriminator")
			if before, ok := strings.CutSuffix(line, ":0"); ok {
				line = before + ":?"
			}
			all[len(all)-1] = append(all[len(all)-1], name+" "+line)
			name = ""
		}
	}
	require.Len(t, all, len(addresses))
	return all
}

// lookup returns the functions at an address as addr2line prints them.
func lookup(t testing.TB, table *Table, at uint64) (all []string) {
	t.Helper()
	frames, err := table.Lookup(at)
	require.NoError(t, err)
	for _, f := range frames {
		line := "?"
		if f.Line != 0 {
			line = strconv.Itoa(f.Line)
		}
		all = append(all, f.Name+" "+cmp.Or(f.File, "??")+":"+line)
	}
	return all
}

// compare compares all addresses of functions with what a tool says, and returns the largest number of
// functions at an address.
func compare(t testing.TB, tool, file string, functions ...string) (deepest int) {
	t.Helper()
	all := addresses(t, file, functions...)
	table := New(opened(t, file), NewBudget())
	require.NotNil(t, table)
	for i, want := range symbolize(t, tool, file, all) {
		got := lookup(t, table, all[i])
		require.Equal(t, want, got, "%#x", all[i])
		deepest = max(deepest, len(got))
	}
	return deepest
}

// TestLookup compares the functions and lines at each address of a program with those of addr2line, for
// versions of DWARF, kinds of programs and compressions. The addr2line of binutils 2.40 does not
// read everything that compilers write for DWARF 5, but that of LLVM does.
func TestLookup(t *testing.T) {
	const gnu, llvm = "addr2line", "llvm-symbolizer"
	for _, c := range []struct{ tool, compiler, flags string }{
		{gnu, "gcc", "-gdwarf-2"},
		{gnu, "gcc", "-gdwarf-3 -no-pie"},
		{gnu, "gcc", "-gdwarf-4 -flto"},
		{gnu, "gcc", "-gdwarf-4 -gz=zlib-gnu"},
		{gnu, "gcc", "-gdwarf-4 -gdwarf64"},
		{gnu, "gcc", "-gdwarf-5 -fPIE -pie"},
		{gnu, "gcc", "-gdwarf-5 -gz=zlib"},
		{gnu, "gcc", "-gdwarf-5 -fdebug-types-section -fno-pie -no-pie"},
		{gnu, "gcc", "-gdwarf-5 -ffunction-sections -Wl,--gc-sections"},
		{llvm, "gcc", "-gdwarf-5 -gdwarf64"},
		{llvm, "gcc", "-gdwarf-5 -flto"},
		{gnu, "clang", "-gdwarf-2"},
		{gnu, "clang", "-gdwarf-4 -no-pie"},
		{llvm, "clang", "-gdwarf-4 -gline-tables-only"},
		{llvm, "clang", "-gdwarf-5 -fPIE -pie"},
		{llvm, "clang", "-gdwarf-5 -gz=zlib -ffunction-sections"},
		{llvm, "clang", "-gdwarf-5 -gdwarf64"},
	} {
		t.Run(c.compiler+" "+c.flags, func(t *testing.T) {
			t.Parallel()
			program := compile(t, c.compiler, strings.Fields(c.flags)...)
			functions := []string{"outer", "helper", "main"}
			if strings.Contains(c.flags, "only") { // nothing is inlined in main, so that it is not described
				functions = functions[:2]
			}
			assert.Equal(t, 3, compare(t, c.tool, program, functions...))
		})
	}
}

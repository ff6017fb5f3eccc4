//go:build linux

package source

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/require"
)

// goProgram builds a program, and returns its path.
func goProgram(t testing.TB, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := range 3 {\n\t\tfmt.Println(i)\n\t}\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	cmd := exec.Command("go", append(append([]string{"build", "-o", "program"}, flags...), "main.go")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "program")
}

// place is an address with which a statement of a line begins.
type place struct {
	file    string
	line    int
	address uint64
}

// expected returns the places that debug/dwarf finds in files with a name. The last row at an address is right, and has the beginning
// of one before it that has the same line.
func expected(t *testing.T, path, name string) map[place]bool {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := f.DWARF()
	require.NoError(t, err)
	all := map[place]bool{}
	for r := data.Reader(); ; r.SkipChildren() {
		unit, err := r.Next()
		require.NoError(t, err)
		if unit == nil {
			return all
		}
		lines, err := data.LineReader(unit)
		require.NoError(t, err)
		if lines == nil {
			continue
		}
		var last, next dwarf.LineEntry
		known := false
		for {
			if err := lines.Next(&next); err == io.EOF {
				break
			}
			require.NoError(t, err)
			if known && next.Address != last.Address {
				if last.IsStmt && filepath.Base(last.File.Name) == name {
					all[place{last.File.Name, last.Line, last.Address}] = true
				}
			} else if known && !next.EndSequence {
				next.IsStmt = next.IsStmt || last.IsStmt && last.File.Name == next.File.Name && last.Line == next.Line
			}
			last, known = next, !next.EndSequence
		}
	}
}

// TestStatements: the places are those that debug/dwarf finds, by DWARF 4 and 5.
func TestStatements(t *testing.T) {
	for _, flags := range [][]string{nil, {"-ldflags=-compressdwarf=false"}, {"-trimpath"}} {
		path := goProgram(t, flags...)
		f, err := elf.Open(path)
		require.NoError(t, err)
		defer f.Close()
		for _, name := range []string{"main.go", "proc.go", "print.go"} {
			want, got := expected(t, path, name), map[place]bool{}
			all := func(string) bool { return true }
			require.NoError(t, New(f, NewBudget()).Statements(8, name, all, func(s Statement) {
				require.Less(t, s.Address, s.End)
				if s.Begins {
					got[place{filepath.Clean(s.File), s.Line, s.Address}] = true
				}
			}))
			require.NotEmpty(t, want)
			require.Equal(t, want, got, name)
		}
	}
}

// FuzzStatements: no file makes the search fail, or cost much.
func FuzzStatements(f *testing.F) {
	b, err := os.ReadFile(goProgram(f, "-ldflags=-compressdwarf=false"))
	require.NoError(f, err)
	section := func() (from, to uint64) {
		file, err := elffile.New(bytes.NewReader(b))
		require.NoError(f, err)
		s := elffile.DebugSection(file, ".debug_line")
		return s.Offset, s.Offset + s.Size
	}
	from, to := section()
	f.Add(uint32(0), byte(0xff))
	f.Add(uint32(10), byte(1))
	f.Add(uint32(to-from-1), byte(0x80))
	f.Fuzz(func(t *testing.T, at uint32, value byte) {
		damaged := bytes.Clone(b)
		damaged[from+uint64(at)%(to-from)] ^= value
		sparse.Cost(t, func() {
			opened, err := elffile.New(bytes.NewReader(damaged))
			require.NoError(t, err)
			_ = New(opened, NewBudget()).Statements(8, "", func(string) bool { return true }, func(Statement) {})
		})
	})
}

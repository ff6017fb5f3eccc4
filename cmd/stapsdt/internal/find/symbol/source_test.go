//go:build linux && (amd64 || arm64)

package symbol

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// compiled builds a program from a source with gcc.
func compiled(t testing.TB, name, source string, flags ...string) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600))
	cmd := exec.Command(testenv.NeedsTool(t, "gcc", "gcc"), append([]string{"-O2", "-g", "-o", program, name}, flags...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// moduleOf returns a module for a file.
func moduleOf(t testing.TB, path string) *Module {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	left := int64(maxTables)
	return &Module{Path: path, content: f, left: &left, sources: newSources()}
}

// startOf returns the address of a symbol.
func startOf(m *Module, name string) uint64 {
	symbols := m.read().symbols
	return symbols[slices.IndexFunc(symbols, func(s elfSymbol) bool { return s.name == name })].start
}

// functionsIn returns the functions at the addresses of a symbol, each once.
func functionsIn(t testing.TB, m *Module, name string) (all []string) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range m.read().symbols {
		for at := s.start; s.name == name && at < s.start+s.size; at++ {
			f := Frame{Address: at, Module: m, Functions: m.lookup(at)}
			if text := fmt.Sprint(f.Lines()); !known[text] {
				known[text] = true
				all = append(all, text)
			}
		}
	}
	return all
}

const inlinedCXX = `namespace shop {
inline __attribute__((always_inline)) int order(volatile int *p) { return *p; }
struct Cart { inline __attribute__((always_inline)) int add(volatile int *p) const {
	return order(p); } };
}
volatile int stock;
int take(const shop::Cart &c) {
	return c.add(&stock); }
int main() { return take({}); }
`

// TestDescribed: names in DWARF are demangled, and the name of a function is that of its symbol. A
// position is not shown if it could be that of another function, because the functions are in other files.
func TestDescribed(t *testing.T) {
	const take = "_Z4takeRKN4shop4CartE"
	cxx := functionsIn(t, moduleOf(t, compiled(t, "a.cc", inlinedCXX)), take)
	assert.Contains(t, cxx, "[shop::order(int volatile*) (a.cc:2) shop::Cart::add(int volatile*) const (a.cc:4) take(shop::Cart const&) (a.cc:8)]")
	split := functionsIn(t, moduleOf(t, compiled(t, "a.cc", inlinedCXX, "-gsplit-dwarf")), take)
	assert.Equal(t, []string{"[take(shop::Cart const&) (program)]"}, split)
	none := functionsIn(t, moduleOf(t, compiled(t, "a.cc", inlinedCXX, "-g0")), take)
	assert.Equal(t, []string{"[take(shop::Cart const&) (program)]"}, none)

	const assembly = ".globl main\n.type main, %function\nmain:\n\tnop\n\tret\n.size main, .-main\n" +
		".section .note.GNU-stack,\"\",%progbits\n"
	assert.Equal(t, []string{"[main (a.s:4)]", "[main (a.s:5)]"}, functionsIn(t, moduleOf(t, compiled(t, "a.s", assembly)), "main"))
}

// TestDescribedLater: while a file system does not answer, there are symbols, and later everything.
func TestDescribedLater(t *testing.T) {
	m := moduleOf(t, compiled(t, "a.cc", inlinedCXX))
	isSilent := false
	m.content = &faltering{ReaderAt: m.content, silent: func(int) bool { return isSilent }}
	at := startOf(m, "main")
	for range 2 {
		isSilent = true
		assert.Len(t, m.lookup(at), 1)
		assert.Empty(t, m.lookup(at)[0].File)
		isSilent = false
	}
	assert.NotEmpty(t, m.lookup(at)[0].File)
	isSilent = true
	assert.NotEmpty(t, m.lookup(at)[0].File, "what was found is kept")
}

// TestDescribedFaltering: a file can have its headers at one moment and none at the next, because
// tables that could not be read are read again.
func TestDescribedFaltering(t *testing.T) {
	m := moduleOf(t, compiled(t, "a.cc", inlinedCXX))
	file := &faltering{ReaderAt: m.content}
	m.content = file
	symbols, all := m.read().symbols, file.reads
	at := startOf(m, "main")
	m.tables, file.reads = nil, 0
	file.silent = func(read int) bool { return read == all || read == 2*all || read == 2*all+1 }
	m.lookup(at)
	assert.Nil(t, m.tables, "they are read again")
	file.silent = nil
	assert.NotEmpty(t, m.lookup(at)[0].File)
	assert.Equal(t, symbols, m.read().symbols)
}

// TestManyDebugFiles: at most maxDebugFiles stay open.
func TestManyDebugFiles(t *testing.T) {
	program := compiled(t, "a.cc", inlinedCXX, "-g0")
	limit, asked := newSources(), 0
	for range maxDebugFiles + 5 {
		m := moduleOf(t, program)
		m.sources = limit
		m.debug = func(f *elf.File, wanted debugfile.Content) (*debugfile.File, error) {
			if wanted == debugfile.DWARF {
				asked++
			}
			return &debugfile.File{ELF: f, Named: true}, nil
		}
		assert.NotEmpty(t, m.lookup(m.read().symbols[0].start))
		m.source.close()
	}
	assert.Equal(t, maxDebugFiles, asked)
	assert.Zero(t, limit.files)
}

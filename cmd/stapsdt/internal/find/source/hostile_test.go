//go:build linux

package source

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDirectoryNumber: DWARF 5 numbers directories from 0, and before, 0 is the unit's own. A number
// that no directory has leads to none.
func TestDirectoryNumber(t *testing.T) {
	named := func(text string) value { return value{form: formString, text: []byte(text)} }
	for version, want := range map[int][]string{
		4: {"/unit/a.c", "/x/a.c", "/y/a.c", "/unit/a.c"},
		5: {"/x/a.c", "/y/a.c", "/unit/a.c", "/unit/a.c"},
	} {
		l := &lines{version: version, directories: []file{{name: named("/x")}, {name: named("/y")}}}
		for d := range want {
			l.files = append(l.files, file{name: named("a.c"), directory: uint64(d)})
		}
		table := &Table{budget: NewBudget()}
		u := &unit{directory: named("/unit")}
		for i := range want {
			number := uint32(i)
			if version < 5 {
				number++
			}
			got, err := table.file(u, l, number)
			assert.NoError(t, err)
			assert.Equal(t, want[i], got, "version %d, directory %d", version, i)
		}
	}
}

// contents returns a section with contents.
func contents(b *Budget, data ...byte) section {
	return section{budget: b, opened: true, data: data, size: uint64(len(data))}
}

// unitOf returns a unit of DWARF 4 with these entries.
func unitOf(entries ...byte) []byte {
	header := []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}
	binary.LittleEndian.PutUint32(header, uint32(len(header)+len(entries)-4))
	return append(header, entries...)
}

// madeTable returns a table of two units. The first has a function at 0x1000, which has a name, or an origin
// in the other unit. In it, a function is inlined at 0x1008, whose origin is at an offset in its unit. The
// other unit has an entry whose origin is at an offset of .debug_info.
func madeTable(named bool, inlined, other byte) *Table {
	const (
		root = iota + 1
		namedFunction
		originFunction
		inlinedCall
		description
	)
	b := NewBudget()
	t := &Table{
		order: binary.LittleEndian, budget: b, abbrevs: map[abbrevsKey]*abbrevs{}, codes: map[*unit]*code{},
		abbrev: contents(b,
			root, 0x11, 1, 0x11, byte(formAddr), 0x12, byte(formData1), 0, 0,
			namedFunction, tagSubprogram, 1, 0x11, byte(formAddr), 0x12, byte(formData1), 0x03, byte(formString), 0, 0,
			originFunction, tagSubprogram, 1, 0x11, byte(formAddr), 0x12, byte(formData1), 0x31, byte(formRefAddr), 0, 0,
			inlinedCall, tagInlined, 0, 0x11, byte(formAddr), 0x12, byte(formData1), 0x31, byte(formRef1),
			0x59, byte(formData1), 0, 0,
			description, tagSubprogram, 0, 0x31, byte(formRefAddr), 0, 0, 0),
	}
	place := func(at, size byte) []byte { return []byte{at, 0x10, 0, 0, 0, 0, 0, 0, size} }
	function := slices.Concat([]byte{namedFunction}, place(0, 0x40), []byte("f\x00"))
	if !named {
		function = slices.Concat([]byte{originFunction}, place(0, 0x40), []byte{0x40, 0, 0, 0})
	}
	call := slices.Concat([]byte{inlinedCall}, place(8, 8), []byte{inlined, 7})
	first := unitOf(slices.Concat([]byte{root}, place(0, 0x40), function, call, []byte{0, 0})...)
	for len(first) < 0x40-11-1 {
		first = unitOf(append(first[11:], 0)...)
	}
	t.info = contents(b, append(first, unitOf(0, description, other, 0, 0, 0)...)...)
	return t
}

// TestOrigins: origins that lead in a circle, nowhere, or out of the unit end. Then there is no
// inlined function, and the symbol has the name of the function itself.
func TestOrigins(t *testing.T) {
	const (
		function    = 11 + 10           // in its unit
		call        = function + 10 + 2 // in the unit
		description = 0x40              // in .debug_info
	)
	for _, c := range []struct {
		named          bool
		inlined, other byte
		at             uint64
		want           []string
	}{
		{true, function, 0, 0x1007, []string{"f ??:?"}},
		{true, function, 0, 0x1008, []string{"f ??:?", "f ??:?"}},
		{true, call, 0, 0x1008, nil}, // itself
		{true, 0, 0, 0x1008, nil},
		{true, 255, 0, 0x1008, nil},
		{false, call, description, 0x1007, []string{" ??:?"}}, // the description is its own origin
		{false, function + 2, description, 0x1008, nil},
		{false, function + 2, 0xff, 0x1007, []string{" ??:?"}},
		{false, call, function, 0x1007, []string{" ??:?"}}, // between two units
	} {
		table := madeTable(c.named, c.inlined, c.other)
		assert.Equal(t, c.want, lookup(t, table, c.at), "%+v", c)
		assert.Nil(t, lookup(t, table, 0x1040))
	}
}

// TestClaimedFiles: a table of lines that claims any number of files allocates none.
func TestClaimedFiles(t *testing.T) {
	for _, formats := range []string{"\x00", "\x01\x01\x19", "\x01\x01\x08"} { // none, of no bytes, and strings
		header := "\x01\x01\x01\xfb\x0e\x01" + formats + strings.Repeat("\xff", 8) + "\x0f"
		b := append([]byte("\x00\x00\x00\x00\x05\x00\x08\x00"), 0, 0, 0, 0)
		b = append(b, header...)
		binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
		binary.LittleEndian.PutUint32(b[8:], uint32(len(header)))
		table := madeTable(true, 0, 0)
		table.line = contents(table.budget, b...)
		sparse.Cost(t, func() {
			_, err := table.readLines(&unit{encoding: encoding{5, 8, 4}, lines: value{form: formSecOffset}})
			assert.ErrorIs(t, err, errDamaged, "%q", formats)
		})
	}
}

// TestBudgetEnds: when the budget is used up, nothing is found, and nothing fails. When too much is kept,
// everything is read again.
func TestBudgetEnds(t *testing.T) {
	program := compile(t, "gcc", "-g")
	all := addresses(t, program, "outer", "main")
	table := New(opened(t, program), NewBudget())
	want := make([][]string, len(all))
	for i, at := range all {
		want[i] = lookup(t, table, at)
		require.NotEmpty(t, want[i])
	}
	used := maxWork - table.budget.work
	other := madeTable(true, 0, 0)
	for i, at := range all {
		require.NotEmpty(t, table.codes)
		table.budget.keep(other, maxKept)
		require.Empty(t, table.codes)
		require.Equal(t, want[i], lookup(t, table, at))
	}

	found := 0
	for left := int64(0); left < used; left += 1 + used/1000 {
		budget := NewBudget()
		budget.work = left
		table := New(opened(t, program), budget)
		if len(lookup(t, table, all[0])) > 0 {
			found++
		}
		require.GreaterOrEqual(t, budget.work, int64(0))
	}
	assert.Greater(t, found, 0)
	assert.Less(t, found, 1000)
}

// TestMutated: whichever bytes of its DWARF were changed, a file can be read without an error, and
// reading it allocates at most 64 MB.
func TestMutated(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	for compiler, flags := range map[string][]string{"gcc": {"-gdwarf-5", "-gdwarf-4", "-gdwarf-5 -flto"}, "clang": {"-gdwarf-5"}} {
		for _, flag := range flags {
			program := compile(t, compiler, strings.Fields(flag)...)
			all := addresses(t, program, "outer", "main")
			original, err := os.ReadFile(program)
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(1, 2))
			found := 0
			for range rounds {
				b := mutate(t, original, random)
				f, err := elffile.New(bytes.NewReader(b))
				require.NoError(t, err)
				sparse.Cost(t, func() {
					table := New(f, NewBudget())
					for range 5 {
						frames, err := table.Lookup(all[random.IntN(len(all))])
						require.NoError(t, err)
						found += min(len(frames), 1)
					}
				})
			}
			t.Logf("%s %s: %d of %d", compiler, flag, found, 5*rounds)
			assert.Greater(t, found, rounds, "almost all files were refused")
		}
	}
}

// mutate returns a file some of whose bytes of DWARF differ.
func mutate(t testing.TB, original []byte, random *rand.Rand) []byte {
	b := slices.Clone(original)
	f, err := elffile.New(bytes.NewReader(b))
	require.NoError(t, err)
	var parts [][]byte
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, ".debug_") && s.Name != ".debug_str" && s.Size > 0 {
			parts = append(parts, b[s.Offset:][:s.FileSize])
		}
	}
	for range 1 + random.IntN(4) {
		part := parts[random.IntN(len(parts))]
		at := random.IntN(len(part))
		switch random.IntN(3) {
		case 0:
			part[at] = byte(random.Uint32())
		case 1:
			part[at] ^= 1 << random.IntN(8)
		default:
			for i := range min(8, len(part)-at) {
				part[at+i] = 0xff
			}
		}
	}
	return b
}

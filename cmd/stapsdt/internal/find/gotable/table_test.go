package gotable

import (
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"
)

// own returns the table of this program.
func own(t testing.TB) *Table {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	table, err := New(f)
	require.NoError(t, err)
	return table
}

// TestGoTableLies: nothing that a table says makes this program fail.
func TestGoTableLies(t *testing.T) {
	table := own(t)
	lines := table.lines
	for i := range 200 {
		// A function's entry is followed by what is known of it.
		broken := append([]byte(nil), lines[:min(len(lines), 1<<16)]...)
		for at := i; at < len(broken); at += 97 {
			broken[at] ^= byte(0x55 + i)
		}
		lie := *table
		lie.lines, lie.funcs = broken, min(table.funcs, uint64(len(broken)/8)-1)
		if i%2 == 0 {
			lie.pcs = lie.pcs[:i]
			lie.names = lie.names[:i]
		}
		for pc := table.text; pc < table.text+1<<16; pc += 509 {
			lie.Lookup(pc)
		}
	}
}

//go:build linux

package source

import (
	"bytes"
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/require"
)

// FuzzLookup: no file makes a lookup fail, or cost much.
func FuzzLookup(f *testing.F) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		program := compile(f, "gcc", version)
		b, err := os.ReadFile(program)
		require.NoError(f, err)
		all := addresses(f, program, "outer")
		f.Add(b, all[len(all)/2])
	}
	f.Fuzz(func(t *testing.T, file []byte, address uint64) {
		sparse.Cost(t, func() {
			opened, err := elffile.New(bytes.NewReader(file))
			if err != nil {
				return
			}
			table := New(opened, NewBudget())
			if table == nil {
				return
			}
			for _, at := range []uint64{address, address + 1} {
				if _, err := table.Lookup(at); err != nil {
					return
				}
			}
			for _, s := range table.code[:min(len(table.code), 10)] {
				_, _ = table.Lookup(s.start)
			}
		})
	})
}

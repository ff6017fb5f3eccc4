package elffile

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
)

// FuzzSymbol: no file makes looking for a symbol fail otherwise than by an error, or cost much.
func FuzzSymbol(f *testing.F) {
	contents := append(make([]byte, 48), "\x00foo\x00.text\x00"...)
	f.Add(sparse.Bytes(f, contents, elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 1, Entsize: symbolSize}), "foo")
	f.Fuzz(func(t *testing.T, file []byte, name string) {
		sparse.Cost(t, func() {
			opened, err := New(bytes.NewReader(file))
			if err != nil {
				return
			}
			_, _, _ = Symbol(opened, name)
			_ = Symbols(opened, elf.SHT_SYMTAB, 1<<20, func(s *elf.Symbol) {
				if len(s.Name) > maxSymbol {
					t.Error(len(s.Name))
				}
			})
			for _, s := range opened.Sections {
				_, _ = Data(s, 1<<20)
			}
		})
	})
}

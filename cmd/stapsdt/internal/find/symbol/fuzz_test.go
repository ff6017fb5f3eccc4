//go:build linux && (amd64 || arm64)

package symbol

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
)

// FuzzModule: no file makes looking for a function fail, or cost much.
func FuzzModule(f *testing.F) {
	table := append(make([]byte, 96), "\x00.gopclntab\x00.rela.dyn\x00.note.gnu.build-id\x00"...)
	copy(table, "\xf1\xff\xff\xff\x00\x00\x01\x08\x01")
	f.Add(sparse.Bytes(f, table, elf.Section64{Name: 96 + 1, Type: uint32(elf.SHT_PROGBITS)}, elf.Section64{Name: 96 + 12, Type: uint32(elf.SHT_RELA)},
		elf.Section64{Name: 96 + 22, Type: uint32(elf.SHT_NOTE)}, elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 1}), uint64(0x1000))
	f.Fuzz(func(t *testing.T, file []byte, address uint64) {
		left := int64(8 << 20)
		sparse.Cost(t, func() {
			m := &Module{content: bytes.NewReader(file), left: &left, sources: newSources()}
			at, _ := m.address(address)
			m.lookup(address)
			m.lookup(at)
			m.Segment(address)
			m.isSite(address, "p")
			for i := range min(len(m.read().symbols), 100) {
				m.lookup(m.tables.symbols[i].start)
			}
		})
		if left < 0 {
			t.Error(left)
		}
	})
}

// FuzzPerfMap: no map makes it fail, and a function that is found is at its address.
func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("2000 10 f\n1000 20 _ZN4shop5orderEi\n0x3000 0x8 with a space\nffffffffffffffff 2 wraps\n"), uint64(0x1008))
	f.Fuzz(func(t *testing.T, lines []byte, address uint64) {
		sparse.Cost(t, func() {
			p := &perfMap{funcs: parsePerfMap(bytes.NewReader(lines))}
			p.lookup(address)
			for i, fn := range p.funcs {
				if i > 0 && fn.start <= p.funcs[i-1].start {
					t.Fatalf("%+v", p.funcs)
				}
				if found := p.lookup(fn.start); (found != nil) != (fn.size > 0) {
					t.Fatalf("%+v: %+v", fn, found)
				}
			}
		})
	})
}

//go:build linux

package target

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
)

// FuzzGoid: no debugging information makes looking for goid fail otherwise than by an error, or
// cost much.
func FuzzGoid(f *testing.F) {
	contents := append([]byte{19, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1, 0x11, 1, 0, 0, 2, 0x13, 1, 3, 8, 0, 0, 0}, "\x00.debug_info\x00.debug_abbrev\x00.debug_str\x00"...)
	f.Add(sparse.Bytes(f, contents, elf.Section64{Name: 25, Type: uint32(elf.SHT_PROGBITS)}, elf.Section64{Name: 37, Type: uint32(elf.SHT_PROGBITS)},
		elf.Section64{Name: 51, Type: uint32(elf.SHT_PROGBITS)}))
	f.Fuzz(func(t *testing.T, file []byte) {
		sparse.Cost(t, func() {
			onlyDebugging(bytes.NewReader(file))
			_, _ = goidOffset(bytes.NewReader(file), noDebug)
			if opened, err := elffile.New(bytes.NewReader(file)); err == nil {
				_, _ = goidFromDWARF(opened)
			}
		})
	})
}

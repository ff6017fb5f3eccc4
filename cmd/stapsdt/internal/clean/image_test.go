//go:build linux

package clean

import (
	"debug/elf"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/elffile/sparse"
)

// TestSparseImage: anyone can put a file into /tmp whose names of sections are as large as they like.
func TestSparseImage(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: sparse.Size})
	sparse.Cost(t, func() {
		if isImage("x-abcdef.so", file) {
			t.Error("it is an image")
		}
	})
}

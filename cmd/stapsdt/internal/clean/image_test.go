//go:build linux

package clean

import (
	"debug/elf"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/assert"
)

// TestSparseImage: anyone can put a file into /tmp whose names of sections are as large as they like.
func TestSparseImage(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: sparse.Size})
	sparse.Cost(t, func() {
		assert.False(t, isImage("x-abcdef.so", file), "it is an image")
	})
}

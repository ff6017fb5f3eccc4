//go:build linux

package target

import (
	"debug/elf"
	"io"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// onlyDebugging reports whether a file has only the debugging information that objcopy --only-keep-debug
// and eu-strip -f separate from a program: it has the notes, and sections of code without the code.
func onlyDebugging(file io.ReaderAt) bool {
	f, err := elffile.New(file)
	if err != nil {
		return false
	}
	empty := false
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0 {
			if s.Type != elf.SHT_NOBITS {
				return false
			}
			empty = true
		}
	}
	return empty
}

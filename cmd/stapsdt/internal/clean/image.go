//go:build linux

package clean

import (
	"debug/elf"
	"encoding/hex"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/elffile"
)

// The names of the files of images: a hash of the content after the provider, and six
// characters of mkstemp in the C library. The prefix is that of a file which was moved aside
// when its cleaner was killed.
var (
	hashName   = regexp.MustCompile(`^(?:\.cleaning-)?.+-([0-9a-f]{32})\.so$`)
	randomName = regexp.MustCompile(`^(?:\.cleaning-)?.+-[A-Za-z0-9]{6}\.so$`)
)

// asidePrefix begins the name of a file that was moved aside.
const asidePrefix = ".cleaning-"

// sections are those that an image may have. No linker makes a file that has no others.
var sections = []string{
	"", ".note.gnu.build-id", ".hash", ".dynsym", ".dynstr", ".text", ".stapsdt.base", ".dynamic", ".note.stapsdt",
	".debug_info", ".debug_abbrev", ".debug_str", ".debug_aranges", ".debug_line", ".shstrtab",
}

// isImage reports whether a file is an image of this library. If its name has a hash, this
// must be the one in the file.
func isImage(name string, file io.ReaderAt) bool {
	f, err := elffile.New(file)
	if err != nil {
		return false
	}
	for _, s := range f.Sections {
		if !slices.Contains(sections, s.Name) {
			return false
		}
	}
	if f.Type != elf.ET_DYN || f.Section(".note.stapsdt") == nil || f.Section(".stapsdt.base") == nil {
		return false
	}
	m := hashName.FindStringSubmatch(name)
	if m == nil {
		return true
	}
	id := f.Section(".note.gnu.build-id")
	if id == nil {
		return false
	}
	note, err := elffile.Data(id, 64)
	return err == nil && strings.HasSuffix(hex.EncodeToString(note), m[1])
}

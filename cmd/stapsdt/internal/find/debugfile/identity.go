//go:build linux

package debugfile

import (
	"bytes"
	"debug/elf"
	"errors"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// BuildID returns the GNU build ID of a file, or nil.
func BuildID(f *elf.File) []byte {
	const (
		maxNote = 256
		header  = 16 // the sizes of name and ID, the type, and the name
		kind    = 3  // NT_GNU_BUILD_ID
		name    = "GNU\x00"
	)
	s := elffile.Loaded(f, ".note.gnu.build-id")
	if s == nil {
		return nil
	}
	b, err := elffile.Data(s, maxNote)
	if err != nil || len(b) < header {
		return nil
	}
	size := f.ByteOrder.Uint32(b[4:])
	isID := f.ByteOrder.Uint32(b) == uint32(len(name)) && f.ByteOrder.Uint32(b[8:]) == kind
	if !isID || string(b[12:header]) != name || size == 0 || size > uint32(len(b)-header) {
		return nil
	}
	return b[header : header+size]
}

// link is the content of .gnu_debuglink: the name of a file, and its checksum.
type link struct {
	name string
	crc  uint32
}

// linkOf returns the link of a file, or nil.
func linkOf(f *elf.File) *link {
	const maxLink = 4 << 10
	s := f.Section(".gnu_debuglink")
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	b, err := elffile.Data(s, maxLink)
	end := bytes.IndexByte(b, 0)
	at := (end + 4) &^ 3
	if err != nil || end <= 0 || len(b) < at+4 {
		return nil
	}
	name := string(b[:end])
	if strings.Contains(name, "/") || name == "." || name == ".." {
		return nil
	}
	return &link{name, f.ByteOrder.Uint32(b[at:])}
}

// Content is what a debug file is needed for.
type Content int

// The values of Content.
const (
	DWARF   Content = iota // descriptions of functions and types
	Symbols                // the table of symbols that stripping removes
)

// In reports whether a file has the content.
func (c Content) In(f *elf.File) bool {
	if c == Symbols {
		s := f.SectionByType(elf.SHT_SYMTAB)
		return s != nil && s.Size > 0
	}
	return debuginfo.In(f)
}

// lacks returns an error if a file does not have the content, or has a part of it in another file.
func (c Content) lacks(f *elf.File) error {
	switch {
	case !c.In(f) && c == Symbols:
		return errNoSymbols
	case !c.In(f):
		return errNoDWARF
	case c == DWARF && f.Section(".gnu_debugaltlink") != nil:
		return errElsewhere
	}
	return nil
}

// The reasons why a file does not belong to a program, or is of no use. They follow its path.
var (
	errBuildID   = errors.New("has another build ID")
	errNoBuildID = errors.New("has no build ID")
	errChecksum  = errors.New("has another checksum than .gnu_debuglink")
	errUnknown   = errors.New("may be of another program: this one has neither a build ID nor a .gnu_debuglink")
	errCode      = errors.New("describes code at other addresses")
	errNoDWARF   = errors.New("has no DWARF")
	errNoSymbols = errors.New("has no symbols")
	errElsewhere = errors.New("needs the file that .gnu_debugaltlink names, which is not supported")
	errTooLarge  = errors.New("is too large for its checksum to be compared")
)

// identity identifies the debug file of a program.
type identity struct {
	id   []byte
	link *link
}

func identityOf(f *elf.File) identity { return identity{BuildID(f), linkOf(f)} }

// check returns nil if a file belongs to a program with the identity. checksum returns the checksum
// of the file.
func (i *identity) check(program, file *elf.File, checksum func() (uint32, error)) error {
	other := BuildID(file)
	err := errUnknown
	switch {
	case i.id != nil && bytes.Equal(i.id, other):
		if !sameCode(program, file) {
			return errCode
		}
		return nil
	case i.id != nil && other != nil:
		err = errBuildID
	case i.link != nil:
		err = errChecksum
	case i.id != nil:
		err = errNoBuildID
	}
	if i.link == nil || !sameCode(program, file) {
		return err
	}
	switch crc, readErr := checksum(); {
	case readErr != nil:
		return readErr
	case crc != i.link.crc:
		return err
	}
	return nil
}

// sameCode reports whether two files are for the same machine, and have the same code at the same
// addresses, as far as the headers tell.
func sameCode(program, file *elf.File) bool {
	if program.Machine != file.Machine || program.Class != file.Class || program.Data != file.Data {
		return false
	}
	type place struct {
		name       string
		start, end uint64
	}
	has := map[place]bool{}
	for _, s := range file.Sections {
		has[place{s.Name, s.Addr, s.Addr + s.Size}] = true
	}
	code := 0
	for _, s := range program.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Size == 0 {
			continue
		}
		if code++; !has[place{s.Name, s.Addr, s.Addr + s.Size}] {
			return false
		}
	}
	return code > 0
}

//go:build linux

package target

import (
	"debug/elf"
	"io"
	"path/filepath"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// onlyDebugging reports whether a file has only the debugging information that objcopy
// --only-keep-debug and eu-strip -f separate from a program: it has the notes, and sections of
// code without the code.
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

// program returns the file as a program that may have a debug file, from its headers.
func (f *File) program(headers *elf.File) *debugfile.Program {
	p := &debugfile.Program{File: headers, Path: f.Path, PID: f.pid, UID: f.uid}
	if absolute, err := filepath.Abs(f.Path); err == nil && f.pid == 0 {
		p.Path = absolute
	}
	return p
}

// findDebug finds the file with the DWARF that was separated from the file, whose headers are
// given.
func (f *File) findDebug(headers *elf.File) (*debugfile.File, error) {
	return f.debug.Find(f.program(headers), debugfile.DWARF)
}

// separate implements function.Separate.
func (f *File) separate(headers *elf.File, use func(*elf.File)) error {
	debug, err := f.findDebug(headers)
	if err != nil {
		return err
	}
	defer debug.Close()
	use(debug.ELF)
	return nil
}

// NoteDebug notes which of the debug files that the user has named belong to the file.
func (f *File) NoteDebug() {
	if headers, err := elffile.New(f.content); err == nil {
		f.debug.Note(f.program(headers))
	}
}

// NoteDebug notes which of the debug files that the user has named belong to a file that one of the
// processes has mapped.
func NoteDebug(debug *debugfile.Finder, pids []int) {
	noted := map[proc.File]bool{}
	for _, pid := range pids {
		mappings, _ := proc.CodeMappings(pid)
		for _, m := range mappings {
			if !m.IsFile() || noted[m.File] || proc.IsFUSE(pid, m.Device) {
				continue
			}
			noted[m.File] = true
			content, err := OpenMapping(pid, m)
			if err != nil {
				continue
			}
			if headers, err := elffile.New(content); err == nil {
				if p, err := content.Program(headers, pid, m.Path); err == nil {
					debug.Note(p)
				}
			}
			_ = content.Close()
		}
	}
}

// Program returns the file as a program that may have a debug file, from its headers, and the path
// that a process sees.
func (c *Content) Program(headers *elf.File, pid int, path string) (*debugfile.Program, error) {
	stat, err := c.stat()
	if err != nil {
		return nil, err
	}
	return &debugfile.Program{File: headers, Path: path, PID: pid, UID: stat.Uid}, nil
}

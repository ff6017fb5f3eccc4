package sdt

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

const (
	noteOwner = "stapsdt\x00"
	noteType  = 3

	// maxArgs is the maximum number of arguments in the notes of a file, and maxErrors the
	// maximum number of damaged notes that are named.
	maxArgs   = 1 << 18
	maxErrors = 100

	// maxKnown is the maximum number of spellings of arguments that are kept. A library for probes
	// writes a few.
	maxKnown = 64

	// maxName is the maximum number of bytes of the name of a provider, a probe, an argument or
	// a type, so that every line about it is short.
	maxName = 1024
)

// walker collects the sites of a file's notes, and the errors in the notes.
type walker struct {
	file  *elfFile
	sites []Site
	errs  []error
	left  int // number of arguments that may still be read
	// known are the arguments that were read, by how the notes spell them, because many probes have
	// the same.
	known map[string][]Arg
}

var errTooMany = errors.New("too many errors")

// errDiscarded means that the linker has discarded the code of a note, as with --gc-sections, but
// not the note.
var errDiscarded = errors.New("the code was discarded")

func (w *walker) fail(err error) {
	switch n := len(w.errs); {
	case n < maxErrors:
		w.errs = append(w.errs, err)
	case n == maxErrors:
		w.errs = append(w.errs, errTooMany)
	}
}

// section walks a section of notes. It reports an error of a note with the note's offset in
// the section and continues with the next one, unless a length leads out of the section.
func (w *walker) section(s *elf.Section) {
	fail := func(at uint64, format string, args ...any) {
		w.fail(fmt.Errorf("%s+%#x: %w", noteSection, at, fmt.Errorf(format, args...)))
	}
	switch {
	case s.Type == elf.SHT_NOBITS:
		return // a file of debug information, whose notes are in another file
	case s.Type != elf.SHT_NOTE:
		fail(0, "the section's type is %v", s.Type)
		return
	case s.Flags&elf.SHF_COMPRESSED != 0:
		fail(0, "the section is compressed")
		return
	case s.Addralign != 8 && s.Addralign > 4:
		fail(0, "the section's alignment of %d is neither 4 nor 8", s.Addralign)
		return
	}
	data, err := elffile.Data(s, maxNotes)
	if err != nil {
		fail(0, "%d bytes at %#x of the file: %w", s.Size, s.Offset, err)
		return
	}
	// The padding follows the section's alignment. Readers treat 0, 1 and 2 as 4.
	pad := max(s.Addralign, 4)
	pad &^= 3
	const header = 12
	size := uint64(len(data))
	for at := uint64(0); at < size; {
		if size-at < header {
			fail(at, "%d bytes are too few for the header of a note", size-at)
			return
		}
		// The lengths are 32 bits each and the sums 64, so nothing here can wrap.
		nameSize := uint64(w.file.ByteOrder.Uint32(data[at:]))
		descSize := uint64(w.file.ByteOrder.Uint32(data[at+4:]))
		kind := w.file.ByteOrder.Uint32(data[at+8:])
		name := at + header
		desc := alignUp(name+nameSize, pad)
		end := desc + descSize
		if name+nameSize > size || end > size {
			fail(at, "the name's %d and the descriptor's %d bytes exceed the section's %d", nameSize, descSize, size)
			return
		}
		if kind == noteType && string(data[name:name+nameSize]) == noteOwner {
			if w.sites == nil { // the notes of a file have similar sizes
				w.sites = make([]Site, 0, size/(end-at))
			}
			if err := w.note(data[desc:end], desc); err != nil && err != errDiscarded {
				fail(at, "%w", err)
			}
		}
		// The last note may lack its padding: at then exceeds the size, and the walk ends.
		at = alignUp(end, pad)
	}
}

func alignUp(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

// note reads a descriptor, which is at an offset of its section: three addresses, then
// three strings.
func (w *walker) note(desc []byte, at uint64) error {
	var p Site
	word := w.file.pick(4, 8)
	if len(desc) < 3*word {
		return fmt.Errorf("descriptor at %#x: %d bytes are too few for three addresses", at, len(desc))
	}
	for i, to := range []*uint64{&p.Address, &p.base, &p.Semaphore} {
		if word == 4 {
			*to = uint64(w.file.ByteOrder.Uint32(desc[i*word:]))
		} else {
			*to = w.file.ByteOrder.Uint64(desc[i*word:])
		}
	}
	var text [3]string
	rest := desc[3*word:]
	for i, what := range []string{"provider", "name", "arguments"} {
		s, after, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			return fmt.Errorf("%s at %#x: no NUL in %d bytes", what, at+uint64(len(desc)-len(rest)), len(rest))
		}
		text[i], rest = string(s), after
	}
	p.Provider, p.Name = text[0], text[1]
	if n := len(w.sites); n > 0 && w.sites[n-1].Provider == p.Provider {
		p.Provider = w.sites[n-1].Provider // of the same memory
	}
	if p.Provider == "" || p.Name == "" {
		return fmt.Errorf("names at %#x: %q:%q is incomplete", at+uint64(3*word), p.Provider, p.Name)
	}
	if len(p.Provider) > maxName || len(p.Name) > maxName {
		return fmt.Errorf("names at %#x: %.32q:%.32q is longer than %d bytes", at+uint64(3*word), p.Provider, p.Name, maxName)
	}
	if len(bytes.Trim(rest, "\x00")) != 0 {
		return fmt.Errorf("%s:%s: %d bytes at %#x follow the arguments", p.Provider, p.Name, len(rest), at+uint64(len(desc)-len(rest)))
	}
	if p.Args = w.args(text[2]); w.left < 0 {
		return fmt.Errorf("%s:%s: the file has more than %d arguments", p.Provider, p.Name, maxArgs)
	}
	if err := w.place(&p); err == errDiscarded {
		return err
	} else if err != nil {
		return fmt.Errorf("%s:%s: %w", p.Provider, p.Name, err)
	}
	w.sites = append(w.sites, p)
	return nil
}

// args returns the arguments of a note, or nil if the file has too many.
func (w *walker) args(text string) []Arg {
	known, ok := w.known[text]
	if ok {
		if w.left -= len(known); w.left < 0 {
			return nil
		}
		return slices.Clone(known)
	}
	words := splitArgs(text)
	if w.left -= len(words); w.left < 0 {
		return nil
	}
	all := parseArgs(w.file.notation(), words)
	if len(w.known) < maxKnown {
		w.known[text] = all
		all = slices.Clone(all)
	}
	return all
}

// place finds a probe's site and semaphore in the file.
func (w *walker) place(p *Site) error {
	if w.file.Type == elf.ET_REL {
		return errors.New("an object file has no addresses before it is linked")
	}
	shift := w.file.shift(p.base)
	var ok bool
	if w.file.mask(p.Address+shift) < w.file.code && len(w.file.Progs) > 0 { // in a discarded one
		return errDiscarded
	}
	if p.Offset, ok = w.file.fileOffset(w.file.mask(p.Address+shift), elf.PF_X); !ok {
		return fmt.Errorf("address %#x is in no executable segment", w.file.mask(p.Address+shift))
	}
	if p.Semaphore == 0 {
		return nil
	}
	at := w.file.mask(p.Semaphore + shift)
	if p.SemaphoreOffset, ok = w.file.fileOffset(at, 0); !ok {
		return fmt.Errorf("semaphore at %#x is in no segment", at)
	}
	return nil
}

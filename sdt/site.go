package sdt

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNoProbes means that a file is valid ELF, but contains no SDT notes: see [Read].
var ErrNoProbes = errors.New("no SDT probes")

// Site is a place at which a program fires a probe, as one note describes it. A probe that is
// fired in several places, or whose function the compiler has inlined, has a Site for each.
type Site struct {
	Provider, Name string

	// Address and Semaphore are the addresses in the note, as readelf -n shows them. Address is
	// the address of the site. Semaphore is the address of the counter that a tracer increments
	// while it is attached, or 0 if the probe has none.
	Address, Semaphore uint64

	// Offset and SemaphoreOffset are the offsets of the site and its semaphore in the file,
	// in bytes, which the kernel's uprobes take. If the file was prelinked, they take into account
	// how far it was moved. SemaphoreOffset is 0 if there is no semaphore.
	Offset, SemaphoreOffset uint64

	// Args are the arguments in the order of the note, or nil if there are none.
	Args []Arg

	base uint64 // the address of the section .stapsdt.base when the note was written
}

// ReadFile is [Read] for the file at a path, which may be one of /proc/PID/map_files.
func ReadFile(path string) ([]Site, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sites, err := Read(f)
	if err != nil {
		return sites, fmt.Errorf("%s: %w", path, err)
	}
	return sites, nil
}

// Read returns the sites of an ELF file, in the order of its notes. Files of 32 and 64
// bits and of either byte order are read, on every system. If the file has no notes, the error
// wraps [ErrNoProbes]. If it is not ELF, the error wraps that of package debug/elf.
//
// A damaged note does not hide the others: Read returns the sites of the readable notes, and
// an error that names each damaged note by its offset in the section, and its wrong bytes.
// Notes whose code the linker has discarded are left out.
//
// Read reads only headers and notes from r, and allocates no more than they need. It
// reads at most 8 MiB of notes and 262144 arguments, and fails if a file has more.
func Read(r io.ReaderAt) ([]Site, error) {
	f, err := openELF(r)
	if err != nil {
		return nil, err
	}
	w := walker{file: f, left: maxArgs, known: map[string][]Arg{}}
	left := uint64(maxNotes)
	for _, s := range f.Sections {
		if s.Name != noteSection {
			continue
		}
		if s.FileSize > left {
			w.fail(fmt.Errorf("%s: %d bytes of notes exceed the limit of %d", noteSection, s.FileSize, maxNotes))
			break
		}
		left -= s.FileSize
		w.section(s)
	}
	if len(w.sites) == 0 && len(w.errs) == 0 {
		return nil, ErrNoProbes
	}
	return w.sites, errors.Join(w.errs...)
}

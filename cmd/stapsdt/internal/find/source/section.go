//go:build linux

package source

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// section is a section of DWARF. It is read in pieces, unless it is compressed.
type section struct {
	budget *Budget
	elf    *elf.Section // nil if the file does not have it

	opened bool
	err    error
	size   uint64
	r      io.ReaderAt // nil if data are the whole contents
	at     uint64
	data   []byte
}

func (s *section) open() error {
	if s.opened {
		return s.err
	}
	switch {
	case s.elf == nil:
	case elffile.Compressed(s.elf):
		data, err := elffile.Data(s.elf, uint64(min(s.budget.held, s.budget.work)))
		switch {
		case errors.Is(err, stall.Err):
			return err // it is read again later
		case err != nil:
			err = errDamaged // or too large
		default:
			err = cmp.Or(s.budget.hold(len(data)), s.budget.spend(len(data)))
		}
		s.data, s.size, s.err = data, uint64(len(data)), err
	default:
		s.r, s.size = s.elf.ReaderAt, s.elf.Size
	}
	s.opened = true
	return s.err
}

const (
	// window is the least number of bytes that are read at once: many units have a first entry of
	// about 100 bytes and a range, and the first bytes of their abbreviations are needed.
	window = 512
	// maxWindow is the maximum number of bytes of a section that stay in memory.
	maxWindow = 4 << 10
)

// from returns the bytes at an offset: at least n, unless the section ends before. Callers limit n,
// because the size of a section can be wrong.
func (s *section) from(at, n uint64) ([]byte, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if at >= s.size {
		return nil, errDamaged
	}
	n = min(n, s.size-at)
	if at >= s.at && at-s.at < uint64(len(s.data)) {
		if b := s.data[at-s.at:]; uint64(len(b)) >= n {
			return b, nil
		}
	}
	size := min(max(n, window), s.size-at)
	if err := s.budget.spend(int(size)); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	got, err := s.r.ReadAt(data, int64(at))
	if data = data[:got]; uint64(got) >= n {
		err = nil
	} else if errors.Is(err, io.EOF) { // the section's size is wrong
		err = errDamaged
	}
	if err != nil {
		return nil, err
	}
	if size <= maxWindow {
		s.at, s.data = at, data
	}
	return data, nil
}

// bytes returns n bytes at an offset.
func (s *section) bytes(at, n uint64) ([]byte, error) {
	b, err := s.from(at, n)
	if err == nil && uint64(len(b)) < n {
		err = errDamaged
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

const (
	// maxString is the maximum length of a name or a path. The rest of a longer one is cut off.
	maxString = 8 << 10
	// stringWork is the cost of a byte of a string, which callers keep.
	stringWork = 16
)

// text returns the string at an offset.
func (s *section) text(at uint64) (string, error) {
	for n := uint64(1); ; n = maxString {
		b, err := s.from(at, n)
		if err != nil {
			return "", err
		}
		b = b[:min(len(b), maxString)]
		if end := bytes.IndexByte(b, 0); end >= 0 {
			b = b[:end]
		} else if n < maxString {
			continue
		}
		return string(b), s.budget.spend(stringWork * len(b))
	}
}

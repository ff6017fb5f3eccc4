package gotable

import (
	"bytes"
	"encoding/binary"
	"io"
)

const (
	// pageSize is the number of bytes that package stall reads at once.
	pageSize = 64 << 10
	// pageCount is the number of pages of a part that are kept.
	pageCount = 16
)

// part is a part of a file that is read in pages, because an answer needs little of it. The file
// may be shorter than its headers claim, and may change.
type part struct {
	order  binary.ByteOrder
	file   io.ReaderAt
	size   uint64
	pages  [pageCount]page // by the numbers of the pages modulo pageCount
	joined []byte          // bytes of several pages
	reads  int             // the number of pages that were read
	err    error           // the last error of reading
}

type page struct {
	next uint64 // the number of the next page, or 0 if this one is empty
	data []byte
}

func newPart(order binary.ByteOrder, r io.ReaderAt, offset, size uint64) *part {
	return &part{order: order, file: io.NewSectionReader(r, int64(offset), int64(size)), size: size}
}

// page returns the content of a page. It is shorter than a page at the end of the part, and if
// the file could not be read.
func (p *part) page(number uint64) []byte {
	kept := &p.pages[number%pageCount]
	if kept.next == number+1 {
		return kept.data
	}
	if number > p.size/pageSize {
		return nil
	}
	size := int(min(pageSize, p.size-number*pageSize))
	if cap(kept.data) < size {
		kept.data = make([]byte, size)
	}
	p.reads++
	kept.next = number + 1
	n, err := p.file.ReadAt(kept.data[:size], int64(number*pageSize))
	if kept.data = kept.data[:n]; n < size {
		if kept.next, p.err = 0, err; err == io.EOF {
			p.err = io.ErrUnexpectedEOF
		}
	}
	return kept.data
}

// from returns the bytes from an offset to the end of its page, and at least as many as wanted,
// unless the part has fewer. They are valid until the next call.
func (p *part) from(at uint64, wanted int) []byte {
	if at >= p.size {
		return nil
	}
	b := p.page(at / pageSize)
	b = b[min(at%pageSize, uint64(len(b))):]
	if len(b) >= wanted || uint64(len(b)) == p.size-at {
		return b
	}
	p.joined = append(p.joined[:0], b...)
	for len(p.joined) < wanted {
		next := at + uint64(len(p.joined))
		if next%pageSize != 0 || next >= p.size {
			break
		}
		b := p.page(next / pageSize)
		if len(b) == 0 {
			break
		}
		p.joined = append(p.joined, b[:min(len(b), wanted-len(p.joined))]...)
	}
	return p.joined
}

// u32 returns the number at an offset, or the largest one outside of the part.
func (p *part) u32(at uint64) uint32 {
	if b := p.from(at, 4); len(b) >= 4 {
		return p.order.Uint32(b)
	}
	return ^uint32(0)
}

// maxText is the maximum length of a string that is read. Names can be long by type arguments.
const maxText = 4096

// text returns the string before the first NUL.
func (p *part) text(at uint64) string {
	b := p.from(at, 1)
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		if b = p.from(at, maxText); bytes.IndexByte(b, 0) >= 0 {
			end = bytes.IndexByte(b, 0)
		} else {
			end = len(b)
		}
	}
	return string(b[:min(end, maxText)])
}

// memory returns the maximum number of bytes that the part keeps of the file.
func (p *part) memory() int64 {
	if p == nil {
		return 0
	}
	return int64(min(p.size, pageSize*pageCount))
}

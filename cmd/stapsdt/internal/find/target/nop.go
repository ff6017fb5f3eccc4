//go:build linux

package target

import (
	"io"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// nop1 is the one-byte nop. Every kernel for x86 can trace it, with a trap.
const nop1 = "\x90"

// preferFastNops moves the sites that have two nops to the second one, if this kernel traces it
// without a trap. libbpf's usdt.h emits them side by side; the note names the first, which every
// tracer finds.
func preferFastNops(file io.ReaderAt, probes []sdt.Site) {
	chosen := site.Chosen()
	if chosen == nil || chosen.Code == nop1 {
		return
	}
	near := &window{ReaderAt: file}
	code := make([]byte, len(nop1)+len(chosen.Code))
	for i := range probes {
		p := &probes[i]
		_, err := near.ReadAt(code, int64(p.Offset))
		if err != nil || string(code) != nop1+chosen.Code {
			continue
		}
		p.Address += uint64(len(nop1))
		p.Offset += uint64(len(nop1))
	}
}

// window reads a page of a file for small pieces that follow each other, such as the sites of an
// image.
type window struct {
	io.ReaderAt
	at    int64
	bytes []byte
}

func (w *window) ReadAt(p []byte, off int64) (int, error) {
	const page = 4096
	if off < w.at || off+int64(len(p)) > w.at+int64(len(w.bytes)) {
		w.at, w.bytes = off, make([]byte, page)
		n, err := w.ReaderAt.ReadAt(w.bytes, off)
		if w.bytes = w.bytes[:n]; n < len(p) {
			return copy(p, w.bytes), err
		}
	}
	return copy(p, w.bytes[off-w.at:]), nil
}

// maxNop is the size of the longest nop.
const maxNop = 10

// Nop returns the name of the nop at a site, or "" if another instruction is there.
func (f *File) Nop(p *sdt.Site) string {
	host := image.Host()
	if host == nil || f.content == nil {
		return ""
	}
	if f.near == nil {
		f.near = &window{ReaderAt: f.content}
	}
	code := make([]byte, maxNop)
	n, _ := f.near.ReadAt(code, int64(p.Offset)) // fewer bytes at the end of the file
	for _, nop := range host.Nops {
		if strings.HasPrefix(string(code[:n]), nop.Code) {
			return nop.Name
		}
	}
	return ""
}

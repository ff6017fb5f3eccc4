//go:build linux

package target

import (
	"io"

	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// nop1 is the nop that all kernels for x86 know, and trap at.
const nop1 = "\x90"

// preferFastNops moves the sites that have two nops to the second one, if this kernel traces it
// without a trap. libbpf's usdt.h emits them side by side; the note names the first, which every
// tracer finds.
func preferFastNops(file io.ReaderAt, probes []sdt.Site) {
	chosen := site.Chosen()
	if chosen == nil || chosen.Code == nop1 {
		return
	}
	code := make([]byte, len(nop1)+len(chosen.Code))
	for i := range probes {
		p := &probes[i]
		if _, err := file.ReadAt(code, int64(p.Offset)); err != nil || string(code) != nop1+chosen.Code {
			continue
		}
		p.Address += uint64(len(nop1))
		p.Offset += uint64(len(nop1))
	}
}

package gotable

import (
	"bytes"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Names is a set of names of functions.
type Names []uint64 // a bit for each offset

func (n Names) add(at uint64) { n[at/64] |= 1 << (at % 64) }

// Has reports whether the set has the name at an offset. A nil set has all.
func (n Names) Has(at uint32) bool {
	if n == nil {
		return true
	}
	return uint64(at)/64 < uint64(len(n)) && n[at/64]&(1<<(at%64)) != 0
}

// Names returns the names that match, of functions and of those that are inlined everywhere.
// It passes names without escapes, which are valid during the call.
func (t *Table) Names(match func(name []byte) bool) (Names, error) {
	all := make(Names, t.names.size/64+1)
	t.names.err = nil
	for at := uint64(0); at < t.names.size && t.names.err == nil; {
		b := t.names.from(at, maxText)
		for len(b) > 0 {
			end := bytes.IndexByte(b, 0)
			if end < 0 && len(b) < maxText && at+uint64(len(b)) < t.names.size {
				break // the name ends in the next page
			}
			if end < 0 {
				end = len(b)
			}
			name := b[:end]
			if bytes.IndexByte(name, '%') >= 0 {
				name = []byte(spec.Unescape(string(name)))
			}
			if len(name) > 0 && match(name) {
				all.add(at)
			}
			at += uint64(end) + 1
			b = b[min(end+1, len(b)):]
		}
	}
	return all, t.names.err
}

// Name returns the name at an offset.
func (t *Table) Name(at uint32) string { return spec.Unescape(t.names.text(uint64(at))) }

package dwarf

import (
	"bytes"
	"hash/maphash"
)

// strings finds the strings of .debug_str. It is a hash table with open addressing, which has
// their offsets plus 1: a map would take a fifth of the time in which many probes are loaded.
type strings struct {
	seed   maphash.Seed
	places []uint32 // a power of two, of which at least half are 0
	count  int
}

// newStrings returns a table with room for n strings.
func newStrings(n int) strings {
	size := 64
	for size < 2*n {
		size *= 2
	}
	return strings{seed: maphash.MakeSeed(), places: make([]uint32, size)}
}

// find returns the place of a string. If it is 0, the caller adds the string to the section and
// fills the place.
func (t *strings) find(section []byte, s string) *uint32 {
	if 2*t.count >= len(t.places) {
		t.grow(section)
	}
	for i := maphash.String(t.seed, s); ; i++ {
		place := &t.places[i&uint64(len(t.places)-1)]
		if *place == 0 {
			t.count++
			return place
		}
		at := section[*place-1:]
		if len(at) > len(s) && at[len(s)] == 0 && string(at[:len(s)]) == s {
			return place
		}
	}
}

// grow doubles the table.
func (t *strings) grow(section []byte) {
	grown := newStrings(len(t.places))
	for at := 0; at < len(section); {
		s := section[at : at+bytes.IndexByte(section[at:], 0)]
		*grown.find(section, string(s)) = uint32(at) + 1
		at += len(s) + 1
	}
	*t = grown
}

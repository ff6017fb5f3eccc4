package recording

import (
	"encoding/binary"
	"math"

	"github.com/go-stapsdt/stapsdt/internal/kind"
)

// Arg describes an argument.
type Arg struct {
	Name string
	Type int8 // a stapsdt.ArgType
	Kind kind.Kind
	Bare bool // a String that is the name of something, and not a text of the program
}

// MaxName is the length to which a reader cuts names: the maximum length of the names of providers
// and probes.
const MaxName = 255

// MaxArgs is the largest number of a probe's arguments, and MaxText the largest length of a text.
const (
	MaxArgs = 12
	MaxText = 4096 - 1
)

// Probe describes a probe.
type Probe struct {
	Provider, Name string
	// PID is the process that has the probe, or 0 for the recording's.
	PID  uint32
	Args []Arg
	// NoThread and NoGoroutine mean that a recording is known to lack the threads or goroutines of
	// its events. They are not in its table.
	NoThread, NoGoroutine bool
	// Hidden is the number of the last arguments that are shown only if an expression names them.
	// It is not in the table either.
	Hidden int
}

// The entry of a probe in the table:
//
//	 0  4  its size, a multiple of 8
//	 4  4  the PID
//	 8  2  the length of the provider's name
//	10  2  the length of the probe's name
//	12  1  the number of arguments
//	13  1  zero
//	14  2  a bit for each argument that is Bare
//	16     for each argument: 1 byte its type, 1 byte its kind, 2 bytes the length of its name
//	       the names: the provider's, the probe's, the arguments'
const (
	probeHeadBytes = 16
	argBytes       = 4
)

// Append appends the probe's entry. Names of more than 65,535 bytes are cut.
func (p *Probe) Append(dst []byte) []byte {
	start, le := len(dst), binary.LittleEndian
	cut := func(s string) string { return s[:min(len(s), math.MaxUint16)] }
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, p.PID)
	dst = le.AppendUint16(dst, uint16(len(cut(p.Provider))))
	dst = le.AppendUint16(dst, uint16(len(cut(p.Name))))
	dst = append(dst, byte(len(p.Args)), 0)
	bare := uint16(0)
	for i, a := range p.Args {
		if a.Bare {
			bare |= 1 << i
		}
	}
	dst = le.AppendUint16(dst, bare)
	for _, a := range p.Args {
		dst = append(dst, byte(a.Type), byte(a.Kind))
		dst = le.AppendUint16(dst, uint16(len(cut(a.Name))))
	}
	dst = append(append(dst, cut(p.Provider)...), cut(p.Name)...)
	for _, a := range p.Args {
		dst = append(dst, cut(a.Name)...)
	}
	for (len(dst)-start)%8 != 0 {
		dst = append(dst, 0)
	}
	le.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// decodeProbe decodes the first entry of a table, and returns its size too.
func decodeProbe(b []byte) (p *Probe, size int, err error) {
	if len(b) < probeHeadBytes {
		return nil, 0, corrupt("the table ends in a probe")
	}
	le := binary.LittleEndian
	whole := uint64(le.Uint32(b))
	count := int(b[12])
	if whole%8 != 0 || whole < uint64(probeHeadBytes+argBytes*count) || whole > uint64(len(b)) ||
		count > MaxArgs {
		return nil, 0, corrupt("a probe in the table takes %d bytes and has %d arguments", whole, count)
	}
	size = int(whole)
	names := b[probeHeadBytes+argBytes*count : size]
	take := func(length uint16) (s string) {
		if int(length) > len(names) {
			err = corrupt("a name in the table has %d bytes", length)
			return ""
		}
		s, names = string(names[:min(length, MaxName)]), names[length:]
		return s
	}
	p = &Probe{
		PID: le.Uint32(b[4:]), Provider: take(le.Uint16(b[8:])), Name: take(le.Uint16(b[10:])),
	}
	for i := range count {
		at := b[probeHeadBytes+argBytes*i:]
		a := Arg{Type: int8(at[0]), Name: take(le.Uint16(at[2:]))}
		a.Kind = kind.Kind(at[1]).Known(a.Type)
		a.Bare = a.Kind == kind.String && le.Uint16(b[14:])>>i&1 != 0
		if !a.Kind.Fits(a.Type) {
			return nil, 0, corrupt("an argument has the type %d and the kind %d", a.Type, a.Kind)
		}
		p.Args = append(p.Args, a)
	}
	return p, size, err
}

// DecodeProbes decodes entries of a table.
func DecodeProbes(table []byte) (all []*Probe, err error) {
	for len(table) > 0 {
		p, size, err := decodeProbe(table)
		if err != nil {
			return nil, err
		}
		all, table = append(all, p), table[size:]
	}
	return all, nil
}

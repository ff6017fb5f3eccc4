package gotable

import "encoding/binary"

// Offsets in an abi.Type, and the flag for a name with a leading star.
const (
	typeHeader    = 48
	typeFlags     = 20
	typeName      = 40
	flagExtraStar = 1 << 1
	maxTypeName   = 512
)

// Types returns the address from which the runtime counts the offsets of types, or 0 if it is
// unknown.
func (t *Table) Types() uint64 { return t.types }

// OnlyTypes returns a table that has the names of types, and no functions. It holds little memory.
func (t *Table) OnlyTypes() *Table {
	return &Table{order: t.order, types: t.types, memory: &memory{file: t.memory.file}}
}

// TypeName returns the name of the type at an address, such as *errors.errorString. A very long
// name is cut. It is an error if there is no type, or if the file cannot be read.
func (t *Table) TypeName(address uint64) (string, error) {
	var header [typeHeader]byte
	if t.types == 0 || address < t.types {
		return "", errNotLoaded
	}
	if err := t.memory.load(header[:], address); err != nil {
		return "", err
	}
	// A name is a byte of flags, its length and its bytes (abi.Name).
	at := t.types + uint64(t.order.Uint32(header[typeName:]))
	var head [1 + binary.MaxVarintLen32]byte
	if err := t.memory.load(head[:], at); err != nil {
		return "", err
	}
	length, n := binary.Uvarint(head[1:])
	if n <= 0 || length == 0 {
		return "", errNotLoaded
	}
	name := make([]byte, min(length, maxTypeName))
	if err := t.memory.load(name, at+1+uint64(n)); err != nil {
		return "", err
	}
	if header[typeFlags]&flagExtraStar != 0 && name[0] == '*' {
		name = name[1:]
	}
	if length > maxTypeName {
		name = append(name, "…"...)
	}
	return string(name), nil
}

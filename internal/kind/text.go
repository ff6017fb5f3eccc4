package kind

import (
	"math"
	"strconv"
	"time"
)

// AppendText appends a value other than a text for people. bits are its number, with its sign
// extended, or those of a float64. A float has as many digits as one of the size in bytes needs.
func AppendText(to []byte, c Class, u Unit, size int, bits uint64) []byte {
	switch u {
	case Nanoseconds:
		return append(to, time.Duration(bits).String()...)
	case Address:
		return strconv.AppendUint(append(to, "0x"...), bits, 16)
	}
	switch c {
	case Truth:
		return strconv.AppendBool(to, bits != 0)
	case Int:
		return strconv.AppendInt(to, int64(bits), 10)
	case Uint:
		return strconv.AppendUint(to, bits, 10)
	case Float:
		return strconv.AppendFloat(to, math.Float64frombits(bits), 'g', -1, 8*size)
	}
	return to
}

// AppendJSON appends a value other than a text as JSON. A duration becomes its nanoseconds. What
// JSON has no number for becomes a string: NaN, the infinities, addresses in hexadecimal.
func AppendJSON(to []byte, c Class, u Unit, size int, bits uint64) []byte {
	quoted := u == Address
	if c == Float {
		f := math.Float64frombits(bits)
		quoted = math.IsNaN(f) || math.IsInf(f, 0)
	}
	if quoted {
		return append(AppendText(append(to, '"'), c, u, size, bits), '"')
	}
	return AppendText(to, c, None, size, bits)
}

// Parse returns the bits of a value other than a text from what AppendJSON appended, without
// quotes. It returns 0 for a text that is no such value.
func Parse(c Class, u Unit, text string) uint64 {
	switch {
	case c == Truth && text == "true":
		return 1
	case c == Float:
		f, _ := strconv.ParseFloat(text, 64)
		return math.Float64bits(f)
	}
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(i)
	}
	i, _ := strconv.ParseUint(text, 0, 64)
	return i
}

package words

import "unsafe"

// Load returns the word of a variable whose type is not a string. t is the stapsdt.ArgType of the
// variable: the size, negative for a signed integer, and 32 more for a float.
func Load(t int8, arg unsafe.Pointer) uint64 {
	// SAFETY: the caller guarantees that arg is the address of a variable of this type.
	switch t {
	case 8, -8, 32 + 8:
		return *(*uint64)(arg)
	case -4:
		return uint64(*(*int32)(arg))
	case 4, 32 + 4:
		return uint64(*(*uint32)(arg))
	case 1:
		return uint64(*(*uint8)(arg))
	case -1:
		return uint64(*(*int8)(arg))
	case 2:
		return uint64(*(*uint16)(arg))
	case -2:
		return uint64(*(*int16)(arg))
	}
	return 0
}

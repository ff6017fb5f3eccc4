package sdt

import (
	"errors"
	"fmt"
	"strings"
)

// parseBracket reads operands of arm64 and arm: x0, 5, #5, [sp], [sp, 8], [sp, #8],
// [x6, x5], [x6, x5, lsl 3]. A symbol alone is not understood: compilers write it for the
// symbol's address, where compilers for x86 mean the value at this address.
func parseBracket(s *syntax, text string) (Operand, error) {
	inside, ok := strings.CutPrefix(text, "[")
	if !ok {
		n, err := number(strings.TrimPrefix(text, "#"))
		return Operand{Kind: OperandConstant, Displacement: n}, err
	}
	if inside, ok = strings.CutSuffix(inside, "]"); !ok {
		return Operand{}, errors.New("a bracket is not closed")
	}
	parts := strings.Split(inside, ",")
	for i := range parts {
		parts[i] = strings.TrimPrefix(parts[i], " ")
	}
	o := Operand{Kind: OperandMemory}
	var err error
	if o.Base, err = s.pointer(parts[0]); err != nil {
		return o, err
	}
	if o.Base.Full == "pc" {
		return o, errors.New("it is a distance from an instruction that is not there")
	}
	switch len(parts) {
	case 1:
		return o, nil
	case 2:
		if o.Displacement, err = number(strings.TrimPrefix(parts[1], "#")); err == nil {
			return o, nil
		}
		if strings.HasPrefix(parts[1], "#") || strings.HasPrefix(parts[1], ":") {
			return o, err
		}
		o.Index, o.Scale, err = s.index(parts[1], "lsl 0")
	case 3:
		o.Index, o.Scale, err = s.index(parts[1], parts[2])
	default:
		err = fmt.Errorf("the address has %d parts", len(parts))
	}
	return o, err
}

// index reads an index register and its shift.
func (s *syntax) index(name, shift string) (Register, int, error) {
	r, err := s.pointer(name)
	if err != nil {
		return r, 0, err
	}
	if r.Full == "sp" || r.Full == "pc" {
		return r, 0, fmt.Errorf("%s cannot be an index", name)
	}
	amount, ok := strings.CutPrefix(shift, "lsl ")
	n, err := number(strings.TrimPrefix(amount, "#"))
	if !ok || err != nil || n < 0 || n > 31 {
		return r, 0, fmt.Errorf("unknown shift %q of an index", shift)
	}
	return r, 1 << n, nil
}

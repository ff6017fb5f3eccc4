package sdt

import (
	"errors"
	"fmt"
	"strings"
)

// parseParen reads operands of riscv64 (a0, 5, 8(sp)), of s390x (%r2, 5, 160(%r15),
// 8(%r1,%r2)) and of ppc64le (3, i5, 96(1)). The symbol of "sym@toc@l(9)" is not
// understood, and neither is a symbol alone, which can stand for its address.
func parseParen(s *syntax, text string) (Operand, error) {
	offset, inside, ok := strings.Cut(text, "(")
	if !ok {
		value := text
		if s.numbered {
			if value, ok = strings.CutPrefix(text, "i"); !ok {
				return Operand{}, errors.New("it is neither a register nor a constant")
			}
		}
		n, err := number(value)
		return Operand{Kind: OperandConstant, Displacement: n}, err
	}
	if inside, ok = strings.CutSuffix(inside, ")"); !ok {
		return Operand{}, errors.New("a parenthesis is not closed")
	}
	o := Operand{Kind: OperandMemory}
	var err error
	if offset != "" {
		if o.Symbol, o.Displacement, err = sum(offset); err != nil {
			return o, err
		}
		if o.Symbol != "" {
			return o, fmt.Errorf("symbol %s and a base in one address", o.Symbol)
		}
	}
	base := inside
	if index, second, ok := strings.Cut(inside, ","); ok {
		if !s.indexed {
			return o, errors.New("unexpected index")
		}
		if o.Index, err = s.nonzero(index); err != nil {
			return o, err
		}
		o.Scale, base = 1, second
	}
	o.Base, err = s.nonzero(base)
	return o, err
}

// nonzero is pointer for machines on which the first register stands for 0 in an address.
// Compilers do not write it, so it is refused.
func (s *syntax) nonzero(name string) (Register, error) {
	r, err := s.pointer(name)
	if err == nil && (r.Full == "%r0" || r.Full == "r0") {
		err = fmt.Errorf("register %q stands for 0 in an address", name)
	}
	return r, err
}

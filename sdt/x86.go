package sdt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parseATT reads operands of amd64 and 386 as AT&T's assembler and all compilers by default
// spell them: %rdi, $5, 8(%rsp), -8(%rbp,%rax,4), counter+8(%rip), counter.
func parseATT(s *syntax, text string) (Operand, error) {
	var o Operand
	var err error
	if value, ok := strings.CutPrefix(text, "$"); ok {
		o.Kind = OperandConstant
		o.Symbol, o.Displacement, err = sum(value)
		return o, err
	}
	o.Kind = OperandMemory
	if strings.HasPrefix(text, "%") {
		if register, _, ok := strings.Cut(text, ":"); ok {
			return o, fmt.Errorf("memory of the segment %s is not supported", register)
		}
		return o, fmt.Errorf("no such register")
	}
	offset, inside, ok := strings.Cut(text, "(")
	if offset != "" {
		if o.Symbol, o.Displacement, err = sum(offset); err != nil {
			return o, err
		}
	}
	if !ok {
		if o.Symbol == "" {
			return o, errors.New("a number without $ is an address that is not relocated")
		}
		if _, ok := s.register("%" + o.Symbol); ok {
			return o, errors.New("a register without %, or a symbol of that name")
		}
		return o, nil
	}
	inside, ok = strings.CutSuffix(inside, ")")
	if !ok {
		return o, errors.New("a parenthesis is not closed")
	}
	if inside == "%rip" && s.address == 64 {
		if o.Symbol == "" {
			return o, errors.New("it is a distance from an instruction that is not there")
		}
		return o, nil // the assembler computes the difference, so the address is the symbol's
	}
	return o, o.setATT(s, strings.Split(inside, ","))
}

// setATT sets the registers of (base,index,scale). Either register may be missing.
func (o *Operand) setATT(s *syntax, parts []string) (err error) {
	for i := range parts {
		parts[i] = strings.TrimPrefix(parts[i], " ")
	}
	if parts[0] != "" || len(parts) == 1 {
		if o.Base, err = s.pointer(parts[0]); err != nil {
			return err
		}
	}
	if len(parts) == 1 {
		return nil
	}
	if len(parts) > 3 {
		return fmt.Errorf("the address has %d parts", len(parts))
	}
	if o.Index, err = s.pointer(parts[1]); err != nil {
		return err
	}
	if o.Index.Full == "%rsp" || o.Index.Full == "%esp" {
		return errors.New("the stack pointer cannot be an index")
	}
	o.Scale = 1
	if len(parts) == 3 {
		if !slices.Contains([]string{"1", "2", "4", "8"}, parts[2]) {
			return fmt.Errorf("scale %q is none of 1, 2, 4 and 8", parts[2])
		}
		o.Scale = int(parts[2][0] - '0')
	}
	return nil
}

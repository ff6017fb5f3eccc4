package sdt

import (
	"debug/elf"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// OperandKind is the kind of an operand.
type OperandKind uint8

// The kinds of operands.
const (
	// OperandUnknown is an operand that this package does not understand or that has more than
	// one meaning. Only its Text is set, and the argument's Err is the reason.
	OperandUnknown OperandKind = iota
	// OperandRegister is a value in a general register, Base.
	OperandRegister
	// OperandVector is a value in a floating-point or vector register, Base. The kernel does
	// not show these to a uprobe.
	OperandVector
	// OperandMemory is a value in memory at the address
	//
	//	Symbol + Base + Index × Scale + Displacement
	//
	// where each part that is not set counts as 0.
	OperandMemory
	// OperandConstant is Symbol + Displacement itself.
	OperandConstant
)

// Operand describes where an argument's value is, or the value itself if it is a constant.
type Operand struct {
	Kind OperandKind
	Base Register
	// Index and Scale belong to an indexed address in memory. Scale is 1, 2, 4 or 8 on
	// x86 and another power of two on ARM, and 0 without an index.
	Index Register
	Scale int
	// Displacement is in bytes, or is the value of a constant. Unsigned constants above
	// 1<<63-1 wrap around.
	Displacement int64
	// Symbol is a name whose address in the process is part of the operand, as in
	// "counter+8(%rip)". It is in the symbol table of the file, unless that was stripped.
	Symbol string
	// Text is the operand as the note spells it.
	Text string
}

// Register is a register, or a part of one.
type Register struct {
	// Name is the register as the note spells it, or "" for none: "%eax", "x0", "3".
	Name string
	// Full is the whole register that Name is a part of, always by the same name: "%rax",
	// "x0", "r3".
	Full string
	// The value is Bits bits wide, above the Shift lowest bits of Full: for "%ah", both are
	// 8.
	Bits, Shift int
}

// syntax is the notation of an architecture's operands. Its parse reads the operands that are
// not a register alone.
type syntax struct {
	registers names
	vectors   names
	zero      []string // registers that are always 0
	address   int      // bits of an address, which a base or an index must have
	numbered  bool     // registers are numbers, and constants are marked
	indexed   bool     // an address in parentheses can have an index
	parse     func(*syntax, string) (Operand, error)
}

func parseOperand(machine elf.Machine, text string) (Operand, error) {
	s := syntaxOf(machine)
	if s == nil {
		return Operand{Text: text}, fmt.Errorf("operand %q: the notation of %v is not supported", text, machine)
	}
	if slices.Contains(s.zero, text) {
		return Operand{Kind: OperandConstant, Text: text}, nil
	}
	if o, ok := s.register(text); ok {
		o.Text = text
		return o, nil
	}
	o, err := s.parse(s, text)
	if err != nil {
		return Operand{Text: text}, fmt.Errorf("operand %q: %w", text, err)
	}
	o.Text = text
	return o, nil
}

// register returns the operand for a register alone.
func (s *syntax) register(name string) (Operand, bool) {
	if r, ok := s.registers[name]; ok {
		return Operand{Kind: OperandRegister, Base: r}, true
	}
	if r, ok := s.vectors[name]; ok {
		return Operand{Kind: OperandVector, Base: r}, true
	}
	return Operand{}, false
}

// pointer returns the register with a name in an address.
func (s *syntax) pointer(name string) (Register, error) {
	r, ok := s.registers[name]
	if !ok {
		return r, fmt.Errorf("%q is not a general register", name)
	}
	if r.Bits != s.address {
		return r, fmt.Errorf("register %q is not of the %d bits of an address", name, s.address)
	}
	return r, nil
}

// number reads a decimal or hexadecimal number. A leading zero, which would make it octal
// to an assembler and not to all tracers, is refused.
func number(s string) (int64, error) {
	digits := strings.TrimPrefix(s, "-")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, base = hex, 16
	} else if len(digits) > 1 && digits[0] == '0' {
		return 0, fmt.Errorf("number %q has a leading zero", s)
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if s[0] != '-' {
		return int64(n), nil
	}
	if n > 1<<63 {
		return 0, fmt.Errorf("%q is not a number of 64 bits", s)
	}
	return -int64(n), nil
}

// sum reads a sum of numbers and at most one symbol, as in "8", "gb-16" and "4096+gb".
func sum(s string) (symbol string, displacement int64, err error) {
	if s == "" {
		return "", 0, fmt.Errorf("an expression is missing")
	}
	for rest := s; rest != ""; {
		sign := rest[0] == '-' || rest[0] == '+'
		if !sign && rest != s || rest[0] == '+' && rest == s {
			return "", 0, fmt.Errorf("%q is not a sum", s)
		}
		end := strings.IndexAny(rest[1:], "+-") + 1
		if end == 0 {
			end = len(rest)
		}
		term := strings.TrimPrefix(rest[:end], "+")
		rest = rest[end:]
		if n, err := number(term); err == nil {
			displacement += n
			continue
		}
		if symbol != "" || !isSymbol(term) {
			return "", 0, symbolError(term)
		}
		symbol = term
	}
	return symbol, displacement, nil
}

func symbolError(term string) error {
	if name, operator, ok := strings.Cut(term, "@"); ok && isSymbol(name) {
		return fmt.Errorf("relocation %q of %s is not supported", "@"+operator, name)
	}
	return fmt.Errorf("%q is neither a number nor a symbol", term)
}

func isSymbol(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '_' || c == '.' || 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && (c == '$' || '0' <= c && c <= '9'):
		default:
			return false
		}
	}
	return s != ""
}

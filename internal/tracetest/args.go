//go:build linux

package tracetest

import (
	"fmt"
	"strconv"
	"strings"
)

// Arg is one argument of a note: "-4@%esi" is {-4, "%esi"}.
type Arg struct {
	// Size is in bytes: 1, 2, 4 or 8, negative where the value is signed.
	Size int
	// Operand is where the value is, in the notation of the architecture's assembler. [ParseOperand] takes it apart.
	Operand string
}

// String is the argument as it stands in a note.
func (a Arg) String() string { return strconv.Itoa(a.Size) + "@" + a.Operand }

// ParseArgs splits the argument string of a note. Arguments are separated by one space, except within brackets, as
// arm64 writes "[sp, 8]". A size that is missing, or not 1, 2, 4 or 8, is an error (which leaves out the "f" of floats).
func ParseArgs(s string) ([]Arg, error) {
	if s == "" {
		return nil, nil
	}
	var args []Arg
	for _, word := range splitArgs(s) {
		size, operand, ok := strings.Cut(word, "@")
		if !ok || operand == "" {
			return nil, fmt.Errorf("argument %q of %q is not SIZE@OPERAND", word, s)
		}
		n, err := argSize(size)
		if err != nil {
			return nil, fmt.Errorf("argument %q of %q: %w", word, s, err)
		}
		args = append(args, Arg{Size: n, Operand: operand})
	}
	return args, nil
}

func splitArgs(s string) []string {
	var words []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ' ':
			if depth == 0 {
				words = append(words, s[start:i])
				start = i + 1
			}
		}
	}
	return append(words, s[start:])
}

func argSize(s string) (int, error) {
	switch s {
	case "1", "2", "4", "8":
		return int(s[0] - '0'), nil
	case "-1", "-2", "-4", "-8":
		return -int(s[1] - '0'), nil
	}
	return 0, fmt.Errorf("size %q is none of 1, 2, 4, 8 and their negatives", s)
}

// Operand is where an argument is: in a register, or in memory at a register plus a displacement.
type Operand struct {
	// Register is the register, or the base where Memory is set, as it is written in the note: "%rdi", "%eax", "x0", "sp".
	Register string
	Memory   bool
	// Displacement is in bytes, and 0 for a register.
	Displacement int64
}

// ParseOperand reads an operand of amd64 (%rdi, 8(%rsp)) or arm64 (x0, [sp], [sp, 8]). Which of the two it is shows in
// the notation. Constants, symbols, indexed and segmented operands are errors: tracers differ in what they make of them.
func ParseOperand(s string) (Operand, error) {
	var o Operand
	base, disp := s, ""
	switch {
	case strings.HasSuffix(s, ")"):
		o.Memory = true
		disp, base, _ = strings.Cut(strings.TrimSuffix(s, ")"), "(")
		if !strings.HasPrefix(base, "%") {
			return o, fmt.Errorf("operand %q: the base is no register", s)
		}
	case strings.HasPrefix(s, "["):
		o.Memory = true
		inner, ok := strings.CutSuffix(s[1:], "]")
		if !ok {
			return o, fmt.Errorf("operand %q: bracket is not closed", s)
		}
		var comma bool
		base, disp, comma = strings.Cut(inner, ",")
		disp = strings.TrimPrefix(disp, " ")
		if strings.HasPrefix(base, "%") || comma && disp == "" {
			return o, fmt.Errorf("operand %q is not [register, displacement]", s)
		}
	}
	reg, ok := lookupRegister(base)
	if !ok {
		return o, fmt.Errorf("operand %q is neither a register nor memory at one", s)
	}
	if o.Memory && reg.bits != 64 {
		return o, fmt.Errorf("operand %q: an address needs a register of 64 bits", s)
	}
	o.Register = base
	if disp == "" {
		return o, nil
	}
	if disp[0] == '+' {
		return o, fmt.Errorf("operand %q: displacement %q", s, disp)
	}
	var err error
	if o.Displacement, err = strconv.ParseInt(disp, 10, 64); err != nil {
		return o, fmt.Errorf("operand %q: displacement: %w", s, err)
	}
	return o, nil
}

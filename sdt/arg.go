package sdt

import (
	"debug/elf"
	"fmt"
	"strconv"
	"strings"
)

// Arg is one argument of a probe.
type Arg struct {
	// Name and Type are the empty string and nil until [ReadTypes] finds them.
	Name string
	Type *Type

	// Size is the size of the value in bytes: 1, 2, 4 or 8 unless Err is set, and 0 if
	// the note does not state it.
	Size int
	// Signed means that the value is signed, and Float that its bits are a floating-point
	// number, wherever the operand is.
	Signed, Float bool

	// Operand is the place of the value when a thread reaches the site.
	Operand Operand

	// Err is nil if the value can be read, and otherwise the reason why not: either the operand's
	// Kind is [OperandUnknown], for example because its notation is not understood, or the Size is
	// not one that a tracer reads.
	Err error
}

// String returns the argument as the note spells it, as in "-4@%esi".
func (a Arg) String() string {
	if a.Size == 0 {
		return a.Operand.Text
	}
	var b strings.Builder
	if a.Signed {
		b.WriteByte('-')
	}
	b.WriteString(strconv.Itoa(a.Size))
	if a.Float {
		b.WriteByte('f')
	}
	return b.String() + "@" + a.Operand.Text
}

// ParseArgs reads the arguments of a note for an architecture, as in "-4@%esi 8@16(%rsp)".
// It always returns one Arg for each argument, and sets Err of those that it does not
// understand. The architectures are amd64, arm64, riscv64, s390x, ppc64le, 386 and arm; for
// any other machine, it understands no operand.
func ParseArgs(machine elf.Machine, text string) []Arg {
	return parseArgs(machine, splitArgs(text))
}

func parseArgs(machine elf.Machine, words []string) []Arg {
	if len(words) == 0 {
		return nil
	}
	args := make([]Arg, len(words))
	for i, word := range words {
		args[i] = parseArg(machine, word)
	}
	return args
}

func parseArg(machine elf.Machine, word string) Arg {
	a, operand, ok := cutSize(word)
	if !ok {
		a.Operand.Text = word
		a.Err = fmt.Errorf("argument %q does not begin with a size", word)
		return a
	}
	a.Operand, a.Err = parseOperand(machine, operand)
	if a.Err != nil {
		return a
	}
	switch {
	case a.Size != 1 && a.Size != 2 && a.Size != 4 && a.Size != 8:
		a.Err = fmt.Errorf("argument %q: size %d is none of 1, 2, 4 and 8", word, a.Size)
	case a.Float && a.Size < 4:
		a.Err = fmt.Errorf("argument %q: no floating-point number has %d bytes", word, a.Size)
	}
	return a
}

// cutSize splits "-4f@OPERAND". The size is a number that String can restore.
func cutSize(word string) (a Arg, operand string, ok bool) {
	size, operand, ok := strings.Cut(word, "@")
	if !ok || operand == "" {
		return a, "", false
	}
	digits, float := strings.CutSuffix(size, "f")
	digits, signed := strings.CutPrefix(digits, "-")
	if len(digits) > 3 || digits == "" || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return a, "", false
	}
	a.Size, _ = strconv.Atoi(digits)
	a.Signed, a.Float = signed, float
	return a, operand, true
}

// splitArgs splits arguments at spaces that are not inside brackets, as in "[sp, 8]". A
// word without a size continues the argument before it ("4@DWORD PTR [rsp+8]"), so that
// an operand in another notation becomes one unknown operand, and not three. If no word
// has a size, each is an argument.
func splitArgs(s string) []string {
	var words []string
	sized := false
	depth, start, last := 0, 0, 0
	flush := func(end int) {
		word := s[start:end]
		if word == "" {
			return
		}
		_, _, ok := cutSize(word)
		if n := len(words); n > 0 && sized && !ok {
			words[n-1] = s[last:end]
			return
		}
		sized, last = sized || ok, start
		words = append(words, word)
	}
	for i := range len(s) {
		switch s[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ' ':
			if depth <= 0 {
				flush(i)
				start = i + 1
			}
		}
	}
	flush(len(s))
	return words
}

//go:build linux

package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// fetch returns how tracefs reads the i-th argument of a site, as in "%dx:s32", or why it
// cannot. The notation is that of the kernel's Documentation/trace/uprobetracer.rst.
func (s *Site) fetch(i int, v *value) (what, why string) {
	if v.Err != nil {
		return "", v.Err.Error()
	}
	place, why := s.place(i, v)
	if why != "" {
		return "", why
	}
	switch {
	case v.format == text && v.Operand.Kind == sdt.OperandConstant:
		return place + ":string", ""
	case v.format == text:
		return "+0(" + place + "):string", ""
	case v.format == address || v.format == float:
		return fmt.Sprintf("%s:x%d", place, 8*v.size()), ""
	case v.format == signed || v.format == duration:
		return fmt.Sprintf("%s:s%d", place, 8*v.size()), ""
	}
	return fmt.Sprintf("%s:u%d", place, 8*v.size()), ""
}

// place returns where the value is. A text that is a constant is at that address.
func (s *Site) place(i int, v *value) (place, why string) {
	switch o := v.Operand; o.Kind {
	case sdt.OperandRegister:
		if o.Base.Shift > 0 {
			return "", "tracefs does not know the register " + o.Base.Name
		}
		return register(o.Base)
	case sdt.OperandConstant:
		switch {
		case o.Symbol != "" && v.format == text:
			return s.symbol(i, o)
		case o.Symbol != "":
			return "", "tracefs knows no addresses of symbols"
		case v.format == text:
			return fmt.Sprintf("@%#x", uint64(o.Displacement)), ""
		}
		return fmt.Sprintf(`\%d`, o.Displacement), ""
	case sdt.OperandMemory:
		switch {
		case o.Index.Name != "":
			return "", "tracefs has no notation for the operand " + o.Text
		case o.Symbol != "" && o.Base.Name != "":
			return "", "tracefs has no notation for the operand " + o.Text
		case o.Symbol != "":
			return s.symbol(i, o)
		case o.Base.Name == "":
			return fmt.Sprintf("@%#x", uint64(o.Displacement)), ""
		}
		base, why := register(o.Base)
		return fmt.Sprintf("%+d(%s)", o.Displacement, base), why
	}
	return "", "the kernel does not show the register " + v.Operand.Text
}

// symbol returns the memory at a symbol. The kernel adds the distance of two offsets, this
// one and that of the site, to the address of the site.
func (s *Site) symbol(i int, o sdt.Operand) (place, why string) {
	offset := int64(s.Offset) + s.Deltas[i] + o.Displacement
	if offset < 0 {
		return "", "the symbol " + o.Symbol + " is before the file"
	}
	return fmt.Sprintf("@+%#x", offset), ""
}

// register returns the kernel's name of a register: "di" for "%rdi".
func register(r sdt.Register) (name, why string) {
	name = strings.TrimPrefix(r.Full, "%")
	if len(name) == 3 && (name[0] == 'r' || name[0] == 'e') && (name[1] < '0' || name[1] > '9') {
		name = name[1:]
	}
	if !cName(name) {
		return "", "tracefs does not know the register " + r.Name
	}
	return "%" + name, ""
}

// The longest names of events, groups and arguments.
const (
	maxEvent    = 63
	maxArgument = 31
)

// reserved are the fields that every event has.
var reserved = []string{"common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
	"__probe_ip", "__probe_ret_ip", "__probe_func"}

// unique returns a name that tracefs accepts, and that is not among others: the name itself,
// as far as possible.
func unique(name string, most int, others []string) string {
	name = strings.Map(func(r rune) rune {
		if r < 128 && cName("x"+string(r)) {
			return r
		}
		return '_'
	}, name)
	if !cName(name) {
		name = "_" + name
	}
	result := name[:min(len(name), most)]
	for i := 2; slices.Contains(others, result) || slices.Contains(reserved, result); i++ {
		suffix := fmt.Sprintf("_%d", i)
		result = name[:min(len(name), most-len(suffix))] + suffix
	}
	return result
}

// cName reports whether a name is an identifier in C.
func cName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

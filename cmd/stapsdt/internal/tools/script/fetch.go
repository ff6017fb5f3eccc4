//go:build linux

package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// fetch returns the fetch argument with which tracefs reads the i-th argument of a site, such as
// "%dx:s32", or "" if it cannot. See the kernel's Documentation/trace/uprobetracer.rst.
func (s *Site) fetch(i int, v *value) string {
	place := s.place(i, v)
	switch {
	case place == "":
		return ""
	case v.format == characters && v.Operand.Kind == sdt.OperandConstant:
		return place + ":string"
	case v.format == characters:
		return "+0(" + place + "):string"
	}
	kind := "u"
	switch v.format {
	case address, float:
		kind = "x"
	case signed, duration:
		kind = "s"
	}
	return fmt.Sprintf("%s:%s%d", place, kind, 8*v.size())
}

// place returns the place of the value, or "". A string with a constant operand is at this address.
func (s *Site) place(i int, v *value) string {
	o := v.Operand
	isMemory := o.Kind == sdt.OperandMemory ||
		o.Kind == sdt.OperandConstant && v.format == characters
	switch {
	case v.Err != nil || o.Index.Name != "":
		return ""
	case o.Kind == sdt.OperandRegister && o.Base.Shift == 0:
		return register(o.Base)
	case o.Kind == sdt.OperandConstant && !isMemory && o.Symbol == "":
		return fmt.Sprintf(`\%d`, o.Displacement)
	case !isMemory || o.Symbol != "" && o.Base.Name != "":
		return ""
	case o.Symbol != "":
		// The kernel adds the distance from the site's offset to this offset to the address of
		// the site.
		offset := int64(s.Offset) + s.Deltas[i] + o.Displacement
		if offset < 0 {
			return ""
		}
		return fmt.Sprintf("@+%#x", offset)
	case o.Base.Name == "":
		return fmt.Sprintf("@%#x", uint64(o.Displacement))
	}
	base := register(o.Base)
	if base == "" {
		return ""
	}
	return fmt.Sprintf("%+d(%s)", o.Displacement, base)
}

// register returns the kernel's name of a register, as in "%di" for "%rdi", or "".
func register(r sdt.Register) string {
	name := strings.TrimPrefix(r.Full, "%")
	if len(name) == 3 && (name[0] == 'r' || name[0] == 'e') && (name[1] < '0' || name[1] > '9') {
		name = name[1:]
	}
	if !cName(name) {
		return ""
	}
	return "%" + name
}

// The maximum lengths of the names of events, groups and arguments.
const (
	maxEvent    = 63
	maxArgument = 31
)

// reserved are the fields that every event has.
var reserved = []string{"common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
	"__probe_ip", "__probe_ret_ip", "__probe_func"}

// unique returns a name that tracefs accepts, and that is not among others. It is as close to
// the given name as possible.
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

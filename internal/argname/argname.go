// Package argname checks the names of probes' arguments: a name is valid if every tracer can
// show it.
package argname

import (
	"slices"
	"strings"
)

// maxBytes is the longest name that the kernel gives to an argument of an event, which
// is how perf shows arguments (MAX_ARG_NAME_LEN in kernel/trace/trace_probe.h).
const maxBytes = 32

// Reserved are the keywords of C, up to C23, which gdb and perf parse; the keywords of
// bpftrace; and the names of the fields that the kernel gives each event
// (reserved_field_names in kernel/trace/trace_probe.h).
const Reserved = `
	auto bool break case char const constexpr continue default do double else enum extern
	false float for goto if inline int long nullptr register restrict return short signed
	sizeof static static_assert struct switch thread_local true typedef typeof
	typeof_unqual union unsigned void volatile while alignas alignof asm
	_Alignas _Alignof _Atomic _BitInt _Bool _Complex _Generic _Imaginary _Noreturn
	_Static_assert _Thread_local
	unroll offsetof
	common_type common_flags common_preempt_count common_pid common_tgid
	__probe_ip __probe_ret_ip __probe_func`

// Fault returns the reason why the name of an argument is invalid, or "".
func Fault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxBytes:
		return "has more than 32 bytes"
	case slices.Contains(strings.Fields(Reserved), name):
		return "is reserved"
	}
	for i, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '_', i > 0 && '0' <= r && r <= '9':
		default:
			return "is not a C identifier"
		}
	}
	return ""
}

// Package argname checks the names of probes' arguments: a name is valid if every tracer can
// show it.
package argname

// maxBytes is the longest name that the kernel gives to an argument of an event, which
// is how perf shows arguments (MAX_ARG_NAME_LEN in kernel/trace/trace_probe.h).
const maxBytes = 32

// Reserved are the keywords of C, up to C23, which gdb and perf parse; the keywords of
// bpftrace; and the names of the fields that the kernel gives each event
// (reserved_field_names in kernel/trace/trace_probe.h). Each string has the words of as many
// letters as its index: a program may define 100,000 probes, and a name is compared with few.
var Reserved = [maxBytes + 1]string{
	2:  "do if",
	3:  "for int asm",
	4:  "auto bool case char else enum goto long true void",
	5:  "break const false float short union while _Bool",
	6:  "double extern inline return signed sizeof static struct switch typeof unroll",
	7:  "default nullptr typedef alignas alignof _Atomic _BitInt",
	8:  "continue register restrict unsigned volatile _Alignas _Alignof _Complex _Generic offsetof",
	9:  "constexpr _Noreturn",
	10: "_Imaginary common_pid __probe_ip",
	11: "common_type common_tgid",
	12: "thread_local common_flags __probe_func",
	13: "static_assert typeof_unqual _Thread_local",
	14: "_Static_assert __probe_ret_ip",
	20: "common_preempt_count",
}

// Fault returns the reason why the name of an argument is invalid, or "".
func Fault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxBytes:
		return "has more than 32 bytes"
	case isReserved(name):
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

func isReserved(name string) bool {
	n := len(name)
	for words := Reserved[n]; len(words) >= n; words = words[min(n+1, len(words)):] {
		if words[:n] == name {
			return true
		}
	}
	return false
}

/* The names of arguments. */
#include "private.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The longest name that the kernel gives to an argument of an event (MAX_ARG_NAME_LEN). */
#define LONGEST 32

/*
 * The keywords of C, up to C23, which gdb and perf parse; the keywords of bpftrace; and
 * the fields that the kernel gives each event. internal/argname has the same list.
 */
static const char *const reserved_names[] = {
	"auto", "bool", "break", "case", "char", "const", "constexpr", "continue", "default",
	"do", "double", "else", "enum", "extern", "false", "float", "for", "goto", "if", "inline",
	"int", "long", "nullptr", "register", "restrict", "return", "short", "signed", "sizeof",
	"static", "static_assert", "struct", "switch", "thread_local", "true", "typedef", "typeof",
	"typeof_unqual", "union", "unsigned", "void", "volatile", "while", "alignas", "alignof",
	"asm", "_Alignas", "_Alignof", "_Atomic", "_BitInt", "_Bool", "_Complex", "_Generic",
	"_Imaginary", "_Noreturn", "_Static_assert", "_Thread_local", "unroll", "offsetof",
	"common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
	"__probe_ip", "__probe_ret_ip", "__probe_func",
};

static bool is_identifier(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && *c != '_' &&
		    !(c > name && *c >= '0' && *c <= '9'))
			return false;
	return true;
}

/*
 * sdt_argument_fault returns the reason why the name of an argument is invalid, or NULL.
 */
const char *sdt_argument_fault(const char *name)
{
	if (!name || !*name)
		return "no name";
	if (strlen(name) > LONGEST)
		return "a name of more than 32 bytes";
	if (!is_identifier(name))
		return "a name that is not a C identifier";
	for (size_t i = 0; i < COUNT(reserved_names); i++)
		if (strcmp(name, reserved_names[i]) == 0)
			return "a reserved name";
	return NULL;
}

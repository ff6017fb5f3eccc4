#!/bin/sh
# Tests of the build: compilers, the header alone, an unknown architecture, no headers of libelf, the exports.
suite=build
. "$(dirname "$0")/lib.sh"

strict="-Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes -Werror"

compile_all() {
	printf '%s\n' *.c */*.c | xargs -P "${JOBS:-1}" -I{} "$1" -std=c11 $strict $2 -S -o /dev/null {}
}

header() {
	language=$1
	shift
	{
		[ "$1" = errno ] && echo '#include <errno.h>'
		echo '#include "libstapsdt.h"'
		echo '#include "libstapsdt.h"'
		echo 'int use(SDTProvider_t *p); int use(SDTProvider_t *p) { return providerErrno(p) == noError; }'
	} >"$log/header.$language"
	shift
	"$@" -I. -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$log/header.$language"
}

# With SDT_NO_SHORT_NAMES, a program may have names of its own, and use the whole API by names with a prefix. Without, a switch
# over the short ones is complete.
own_names() {
	language=$1
	shift
	cat >"$log/names.$language" <<'END'
typedef unsigned char uint8;
typedef signed char int8;
enum { noarg = 100, uint16, int16, uint32, int32, uint64, int64, memfd_disabled, memfd_enabled, noError };
enum { elfCreationError = 200, tmpCreationError, sharedLibraryOpenError, symbolLoadingError, sharedLibraryCloseError };
#define MAX_ARGUMENTS 99
#define SDT_NO_SHORT_NAMES
#include "libstapsdt.h"
int use(SDTProvider_t *p);
int use(SDTProvider_t *p)
{
	const SDTArgument_t arguments[] = {{"text", sdt_string}, {"n", sdt_uint32}, {"i", sdt_int32}};
	const ArgType_t types[] = {sdt_noarg,  sdt_uint8,  sdt_int8,   sdt_uint16, sdt_int16,
				   sdt_uint32, sdt_int32, sdt_uint64, sdt_int64, sdt_string};
	const SDTError_t errors[] = {sdt_no_error, sdt_elf_creation_error, sdt_tmp_creation_error,
				     sdt_shared_library_open_error, sdt_symbol_loading_error, sdt_shared_library_close_error};
	uint8 own = MAX_ARGUMENTS;
	SDTProbe_t *probe = providerAddNamedProbe(p, "probe", 3, arguments);

	probeFire(probe, (uint64_t)own, (uint64_t)0, (uint64_t)0);
	return providerUseMemfd(p, sdt_memfd_enabled) + providerUseMemfd(p, sdt_memfd_disabled) + (int)types[0] +
	       (int)errors[0] + (int)(sizeof probe->argFmt / sizeof *probe->argFmt) - SDT_MAX_VARIADIC_ARGUMENTS;
}
END
	"$@" -I. -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$log/names.$language" || return
	cat >"$log/switch.$language" <<'END'
#include "libstapsdt.h"
int types(ArgType_t type, MemFDOption_t option, const ArgType_t (*all)[MAX_ARGUMENTS]);
int types(ArgType_t type, MemFDOption_t option, const ArgType_t (*all)[MAX_ARGUMENTS])
{
	switch (option) {
	case memfd_disabled:
	case memfd_enabled:
		break;
	}
	switch (type) {
	case noarg:
	case uint8:
	case int8:
	case uint16:
	case int16:
	case uint32:
	case int32:
	case uint64:
	case int64:
	case sdt_string:
		return (int)(*all)[0];
	}
	return type == sdt_uint8;
}
END
	"$@" -I. -Wall -Wextra -Wswitch-enum -Werror -fsyntax-only "$log/switch.$language"
}

# If errno was a macro before the header, it is one after it.
errno_kept() {
	printf '#include <errno.h>\n#include "libstapsdt.h"\nint use(void);\nint use(void) { return errno; }\n' >"$log/kept.c"
	"$CC" -I. -std=c11 -Wall -Wextra -Werror -fsyntax-only "$log/kept.c"
}

without_libelf() {
	mkdir -p "$log/without"
	for file in elf.c *.h arch.def; do
		sed 's/__has_include(<gelf.h>)/0/' "$file" >"$log/without/$file"
	done
	"$CC" -std=c11 -fsyntax-only "$log/without/elf.c" 2>"$log/errors"
	[ $? -ne 0 ] && [ "$(grep -c 'error: ' "$log/errors")" -eq 1 ] &&
		grep -q 'error.*apt-get install libelf-dev' "$log/errors" && return
	cat "$log/errors"
	return 1
}

other_architecture() {
	cat >"$log/other.c" <<'END'
#include "libstapsdt.h"
#include <stdio.h>
#include <string.h>
int main(void)
{
	SDTProvider_t *provider = providerInit("other");
	SDTProbe_t *probe = providerAddProbe(provider, "probe", 1, uint64);
	void *image;
	size_t size;
	int bad = !probe || providerLoad(provider) != -1;

	bad |= providerErrno(provider) != elfCreationError;
	bad |= !strstr(providerError(provider), "not supported on this architecture");
	bad |= providerImage(provider, &image, &size) != -1;
	probeFire(probe, (uint64_t)1);
	bad |= probeIsEnabled(probe);
	puts(providerError(provider));
	providerDestroy(provider);
	return bad;
}
END
	"$CC" -std=c11 -I. '-DSDT_HOST_ARCH="other"' -o "$log/other" "$log/other.c" \
		$(ls *.c recorder/*.c socket/*.c | grep -v demo.c) -lelf -ldl && "$log/other"
}

exported() {
	nm -D --defined-only "$OUT/libstapsdt.so.0" | awk '{ print $3 }' | sort >"$log/exported"
	sed -n 's/^SDT_API.*[ *]\([ps][A-Za-z]*\)(.*/\1/p' libstapsdt.h | sort >"$log/declared"
	diff "$log/declared" "$log/exported" && [ "$(wc -l <"$log/exported")" -eq 26 ]
}

soname() {
	readelf -d "$OUT/libstapsdt.so.0" | grep -q 'SONAME.*\[libstapsdt.so.0\]' &&
		[ "$(readlink "$OUT/libstapsdt.so")" = libstapsdt.so.0 ]
}

# Before it has found the probe enabled, an inlined function makes no call: see Cost in the header.
idle_code() {
	compiler=$1
	shift
	cat >"$log/idle.c" <<'END'
#include "libstapsdt.h"
void probeFire_caller(SDTProbe_t *probe, uint64_t a, uint64_t *after);
void probeFire_caller(SDTProbe_t *probe, uint64_t a, uint64_t *after) { probeFire(probe, a, a); *after = a; }
void probeFireV_caller(SDTProbe_t *probe, const uint64_t *v, uint64_t *after);
void probeFireV_caller(SDTProbe_t *probe, const uint64_t *v, uint64_t *after) { probeFireV(probe, v); *after = *v; }
int probeIsEnabled_caller(SDTProbe_t *probe);
int probeIsEnabled_caller(SDTProbe_t *probe) { return probeIsEnabled(probe); }
END
	"$compiler" -O2 -I. -S -o "$log/idle.s" "$log/idle.c" || return
	for function; do
		awk -v name="${function}_caller:" '
			$1 == name { inside = found = 1 }
			inside && /^\t(call|bl|jmp.*probe|b\tprobe)/ { bad = 1; print }
			inside && /^\tret/ { inside = 0 }
			END { exit bad || !found || inside }' "$log/idle.s" || return
	done
}

# No file is longer than 400 lines, or 500 of tests, but the header, which is the manual; no function is
# longer than 60.
sizes() {
	wc -l *.c *.h */*.[ch] | awk '
		$2 != "total" && $2 != "libstapsdt.h" && $1 > ($2 ~ /^tests\// ? 500 : 400) { print; bad = 1 }
		END { exit bad }' &&
		awk 'FNR == 1 { start = 0 } /^\{/ { start = FNR } /^\}/ { if (start && FNR - start > 60) { print FILENAME ":" start; bad = 1 } start = 0 } END { exit bad }' *.c */*.c
}

# Each file opens with a line that says what it is. Go reads a constraint before that.
openings() {
	awk 'FNR == 1 { seen = 0 } /^$|^\/\/go:build/ { next } !seen && !/^\/\*/ { print FILENAME; bad = 1 } { seen = 1 } END { exit bad }' \
		*.c *.h arch.def */*.[ch]
}

# tsort fails if files call one another in a circle.
layers() {
	for object in "$OUT"/*.o; do
		nm --defined-only "$object" | awk -v o="${object##*/}" 'NF == 3 && $2 ~ /[A-Z]/ { print $3, o }'
	done | sort >"$log/defined"
	for object in "$OUT"/*.o; do
		nm -u "$object" | awk -v o="${object##*/}" '{ print $2, o }'
	done | sort >"$log/used"
	join "$log/used" "$log/defined" | awk '{ print $2, $3 }' | sort -u >"$log/calls"
	[ "$(wc -l <"$log/calls")" -gt 20 ] && tsort "$log/calls"
}

for compiler in gcc clang; do
	have $compiler $compiler "$compiler without a warning" || continue
	check "$compiler without a warning" compile_all $compiler -O2
	check "$compiler without a warning, unoptimized" compile_all $compiler -O0
	check "$compiler: the header as C11" header c alone $compiler -std=c11
	check "$compiler: after errno.h, as C11" header c errno $compiler -std=c11
	check "$compiler: names of the program's own, as C11" own_names c $compiler -std=c11
	inlined=probeIsEnabled
	[ $compiler = clang ] || inlined="probeFire probeFireV $inlined"
	check "$compiler: an idle probe costs no call" idle_code $compiler $inlined
done
for compiler in g++ clang++; do
	have $compiler "g++ clang" "$compiler: the header as C++17" || continue
	check "$compiler: the header as C++17" header cpp alone $compiler -std=c++17
	check "$compiler: after errno.h, as C++17" header cpp errno $compiler -std=c++17
	check "$compiler: names of the program's own, as C++17" own_names cpp $compiler -std=c++17
done
check "errno is kept" errno_kept
check "without libelf's headers, one line" without_libelf
check "an architecture without a row" other_architecture
check "exactly the API is exported" exported
check "soname and link" soname
check "sizes of files and functions" sizes
check "no circle of files" layers
check "each file says what it is" openings

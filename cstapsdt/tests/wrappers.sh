#!/bin/sh
# The library as others use it: installed, by pkg-config, from C++ and from Python.
suite=wrappers
. "$(dirname "$0")/lib.sh"

installs() {
	make -s install OUT="$OUT" PREFIX=/opt/sdt DESTDIR="$log/root" || return
	(cd "$log/root" && find . ! -type d | sort) >"$log/installed"
	diff - "$log/installed" <<'END'
./opt/sdt/include/libstapsdt.h
./opt/sdt/lib/libstapsdt.a
./opt/sdt/lib/libstapsdt.so
./opt/sdt/lib/libstapsdt.so.0
./opt/sdt/lib/pkgconfig/libstapsdt.pc
./opt/sdt/share/man/man3/libstapsdt.3
END
}

# Every name of the header is in the page, and a formatter has nothing to say of it.
manual() {
	page=$log/root/opt/sdt/share/man/man3/libstapsdt.3
	for symbol in $(sed -n 's/^SDT_API.*[ *]\(p[A-Za-z]*\)(.*/\1/p; s/^} \(.*\);/\1/p' libstapsdt.h); do
		grep -q "^.SS $symbol$" "$page" || { echo "no section on $symbol"; return 1; }
	done
	mandoc -T lint -W warning "$page"
}

# The flags of the installed file, moved to where it was really put.
flags() {
	PKG_CONFIG_PATH=$log/root/opt/sdt/lib/pkgconfig pkg-config "$@" libstapsdt |
		sed "s|/opt/sdt|$log/root/opt/sdt|g"
}

pkgconfig() {
	flags --modversion && ${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -o "$log/wrapper" tests/wrapper.cpp \
		$(flags --cflags --libs) && LD_LIBRARY_PATH=$log/root/opt/sdt/lib "$log/wrapper"
}

static_link() {
	${CXX:-c++} -std=c++17 -o "$log/static" tests/wrapper.cpp -I. "$OUT/libstapsdt.a" -lelf -ldl && "$log/static"
}

python() {
	LD_LIBRARY_PATH=$OUT python3 tests/wrapper.py
}

uninstalls() {
	make -s uninstall OUT="$OUT" PREFIX=/opt/sdt DESTDIR="$log/root" || return
	(cd "$log/root" && find . ! -type d) | diff /dev/null -
}

# The environment chooses the nop; each is a trace point that the kernel takes, but for the last on some.
sites() {
	for site in nop1 nop5 nonsense; do
		STAPSDT_SITE=$site "$OUT/tests/fire" && STAPSDT_SITE=$site "$OUT/tests/uprobe" || return
	done
	STAPSDT_SITE=nop10 "$OUT/tests/fire"
}

check "install" installs
have mandoc mandoc "the manual page" && check "the manual page" manual
have pkg-config pkg-config "C++ by pkg-config" && check "C++ by pkg-config" pkgconfig
check "C++, linked statically" static_link
have python3 python3 "Python's ctypes" && check "Python's ctypes" python
check "uninstall" uninstalls
check "STAPSDT_SITE" sites

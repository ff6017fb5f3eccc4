#!/bin/sh
# Tests of the installed library: with pkg-config, from C++ and from Python.
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

# Every name of the header is in the page, and mandoc has no complaint.
manual() {
	page=$log/root/opt/sdt/share/man/man3/libstapsdt.3
	for symbol in $(sed -n 's/^SDT_API.*[ *]\([ps][A-Za-z]*\)(.*/\1/p; s/^} \(.*\);/\1/p' libstapsdt.h); do
		grep -q "^.SS $symbol$" "$page" || { echo "no section on $symbol"; return 1; }
	done
	mandoc -T lint -W style "$page"
}

# The flags of the installed file, with the directory in which it really is.
flags() {
	PKG_CONFIG_PATH=$log/root/opt/sdt/lib/pkgconfig pkg-config "$@" libstapsdt |
		sed "s|/opt/sdt|$log/root/opt/sdt|g"
}

pkgconfig() {
	[ "$(flags --modversion)" = "$(make -s version)" ] && ${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -o "$log/wrapper" tests/wrapper.cpp \
		$(flags --cflags --libs) && LD_LIBRARY_PATH=$log/root/opt/sdt/lib "$log/wrapper"
}

static_link() {
	${CXX:-c++} -std=c++17 -o "$log/static" tests/wrapper.cpp -I. "$OUT/libstapsdt.a" -lelf -ldl && "$log/static"
}

python() {
	LD_LIBRARY_PATH=$OUT python3 tests/wrapper.py
}

# The fast nop too: the children map its page again.
python_forks() {
	LD_LIBRARY_PATH=$OUT python3 tests/fork.py && STAPSDT_SITE=fast LD_LIBRARY_PATH=$OUT python3 tests/fork.py
}

uninstalls() {
	make -s uninstall OUT="$OUT" PREFIX=/opt/sdt DESTDIR="$log/root" || return
	(cd "$log/root" && find . ! -type d) | diff /dev/null -
}

# The environment chooses the nop. The kernel attaches to each of them, but not everywhere to the last.
nops() {
	for nop in nop1 nop5 fast; do
		STAPSDT_SITE=$nop "$OUT/tests/fire" && STAPSDT_SITE=$nop "$OUT/tests/uprobe" || return
	done
	STAPSDT_SITE=nop10 "$OUT/tests/fire"
}

# A set-user-ID program ignores the environment of its user.
set_user_id() {
	chmod 755 "$log" && cp demo "$log/demo" && chmod 4755 "$log/demo" || return
	STAPSDT_DIR=/nonexistent STAPSDT_SITE=nonsense STAPSDT_DEBUG=1 \
		setpriv --reuid=65534 --clear-groups "$log/demo" -f -t 100 setuid$$ probe >"$log/setuid" 2>&1 &
	demo=$!
	wait_for 60 grep -q "^loaded as /tmp/setuid$$-" "$log/setuid"
	found=$?
	kill $demo
	wait $demo
	[ $found -eq 0 ] && ! grep stapsdt: "$log/setuid" && return
	cat "$log/setuid"
	return 1
}

check "install" installs
have mandoc mandoc "the manual page" && check "the manual page" manual
have pkg-config pkg-config "C++ by pkg-config" && check "C++ by pkg-config" pkgconfig
check "C++, linked statically" static_link
have python3 python3 "Python's ctypes" && check "Python's ctypes" python
check "uninstall" uninstalls
check "STAPSDT_SITE" nops
if [ "$(id -u)" -ne 0 ]; then
	echo "skip $suite: a set-user-ID program: not root"
	echo "skip $suite: Python's multiprocessing, traced: not root"
else
	have setpriv util-linux "a set-user-ID program" && check "a set-user-ID program" set_user_id
	have python3 python3 "Python's multiprocessing, traced" &&
		check "Python's multiprocessing, traced" python_forks
fi

#!/bin/sh
# Tests of the image with other programs: byte for byte, readelf, eu-readelf, eu-elflint.
suite=image
. "$(dirname "$0")/lib.sh"
dump=$OUT/tests/dump

same_bytes() {
	"$dump" "$@" >"$log/c" && python3 tests/image.py "$@" >"$log/python" && cmp "$log/c" "$log/python"
}

# The names make no difference except for the debug sections, which Python copies.
same_named() {
	"$dump" "$@" >"$log/c" && python3 tests/image.py --debug "$log/c" "$@" >"$log/python" &&
		cmp "$log/c" "$log/python" && [ "$(readelf -SW "$log/c" | grep -c ' \.debug_')" -eq 5 ]
}

no_complaints() {
	file=$1
	shift
	"$@" "$file" >"$log/dwarf" 2>"$log/complaints" && [ ! -s "$log/complaints" ] && return
	cat "$log/complaints"
	return 1
}

many() {
	same_bytes "$1" "$2" many $(seq -f "probe_%g:8:-4:1" 1 1000)
}

image() {
	"$dump" "$1" "$2" hello-world.v1 greeting:8:8 none extremes:1:-1:2:-2:4:-4:8:-8:1:-1:2:-2 greeting:8:8 \
		>"$log/$1.$2"
}

notes() {
	readelf -n "$log/$1.$2" >"$log/notes" 2>"$log/complaints" && [ ! -s "$log/complaints" ] &&
		sed -e 's/Build ID: [0-9a-f]\{32\}$/Build ID: ID/' -e 's/[[:space:]][[:space:]]*/ /g' \
			-e 's/ $//' "$log/notes" | diff "tests/notes.$1.txt" -
}

eu_notes() {
	eu-readelf -n "$log/$1.$2" >"$log/notes" 2>"$log/complaints" && [ ! -s "$log/complaints" ] &&
		[ "$(grep -c 'Provider: hello-world.v1' "$log/notes")" -eq 4 ] &&
		grep -q "Name: greeting, Args: '$3'" "$log/notes" && grep -q "Name: none, Args: ''" "$log/notes"
}

# Our image may have only the complaints that a library with a probe of <sys/sdt.h> has.
complaints() {
	eu-elflint --gnu-ld "$1" | sed -e 's/section \[ *[0-9]*\]/section/' -e 's/ at offset [0-9]*//' | sort -u
}

lint() {
	printf '#include <sys/sdt.h>\nvoid f(long a);\nvoid f(long a) { DTRACE_PROBE1(p, n, a); }\n' >"$log/sdt.c"
	"$CC" -shared -fPIC -o "$log/sdt.so" "$log/sdt.c" || return
	complaints "$log/sdt.so" >"$log/theirs"
	complaints "$log/$1.$2" >"$log/ours"
	comm -13 "$log/theirs" "$log/ours" | diff /dev/null -
}

deterministic() {
	"$dump" amd64 nop5 same a b:4 >"$log/1" && "$dump" amd64 nop5 same a b:4 >"$log/2" &&
		"$dump" amd64 nop5 same a b:-4 >"$log/3" && cmp "$log/1" "$log/2" && ! cmp -s "$log/1" "$log/3"
}

unknown() {
	! "$dump" "$1" "$2" provider probe >"$log/none" 2>"$log/error" &&
		grep -q "dump: make the image of provider: no nop $2 on architecture $1" "$log/error"
}

nothing_writable_and_executable() {
	! readelf -lW "$log/$1.$2" | grep -q RWE
}

for pair in "amd64 nop1" "amd64 nop5" "amd64 nop10" "arm64 nop4" "riscv64 nop2" "s390x nop4" \
	"ppc64le nop4" "386 nop1" "arm nop4"; do
	set -- $pair
	if have python3 python3 "$pair, byte for byte"; then
		check "$pair, byte for byte: a probe" same_bytes "$@" app request__done:8:-4
		check "$pair, byte for byte: none" same_bytes "$@" app
		check "$pair, byte for byte: 12 arguments" \
			same_bytes "$@" app-2.x all:1:-1:2:-2:4:-4:8:-8:1:-1:2:-2 none all:1:-1:2:-2:4:-4:8:-8:1:-1:2:-2
		check "$pair, byte for byte: not ASCII" same_bytes "$@" größe "événement:8" "事件"
		check "$pair, byte for byte: 1,000 probes" many "$@"
	fi
	check "$pair is written" image "$@"
	check "$pair: no segment is writable and executable" nothing_writable_and_executable "$@"
	have readelf binutils "$pair: readelf -n" && check "$pair: readelf -n" notes "$@"
	have eu-readelf elfutils "$pair: eu-readelf -n" || continue
	case $1 in
	amd64) check "$pair: eu-readelf -n" eu_notes "$@" "8@%rdi 8@%rsi" ;;
	arm64) check "$pair: eu-readelf -n" eu_notes "$@" "8@x0 8@x1" ;;
	riscv64) check "$pair: eu-readelf -n" eu_notes "$@" "8@a0 8@a1" ;;
	s390x) check "$pair: eu-readelf -n" eu_notes "$@" "8@%r2 8@%r3" ;;
	ppc64le) check "$pair: eu-readelf -n" eu_notes "$@" "8@3 8@4" ;;
	386) check "$pair: eu-readelf -n" eu_notes "$@" "8@4(%esp) 8@12(%esp)" ;;
	arm) check "$pair: eu-readelf -n" eu_notes "$@" "8@\[sp, #0\] 8@\[sp, #8\]" ;;
	esac
	if echo '#include <sys/sdt.h>' | "$CC" -fsyntax-only -xc - 2>/dev/null; then
		check "$pair: eu-elflint" lint "$@"
	else
		echo "skip $suite: $pair: eu-elflint: no sys/sdt.h: apt-get install systemtap-sdt-dev"
	fi
done
names="request__done:16=path:-4=status none:1 all:1=a:-1=b:2=c:-2=d:4=e:-4=f:8=g:-8=h:16=i:1=j:1=k:1=l"
for pair in "amd64 nop1" "amd64 nop5" "arm64 nop4"; do
	set -- $pair
	have python3 python3 "$pair, names, byte for byte" &&
		check "$pair, names, byte for byte" same_named "$@" app $names
	"$dump" "$@" app $names >"$log/named"
	have readelf binutils "$pair, names: readelf" &&
		check "$pair, names: readelf --debug-dump" no_complaints "$log/named" readelf --debug-dump
	have eu-readelf elfutils "$pair, names: eu-readelf" &&
		check "$pair, names: eu-readelf -w" no_complaints "$log/named" eu-readelf -w
	have eu-elflint elfutils "$pair, names: eu-elflint" && cp "$log/named" "$log/$1.$2" &&
		check "$pair, names: eu-elflint" lint "$@"
	have llvm-dwarfdump llvm "$pair, names: llvm-dwarfdump" &&
		check "$pair, names: llvm-dwarfdump --verify" no_complaints "$log/named" llvm-dwarfdump --verify
done
have python3 python3 "riscv64, names" &&
	check "riscv64 nop2, names: there is no DWARF" same_bytes riscv64 nop2 app $names
check "equal providers have equal images" deterministic
check "an unknown nop" unknown amd64 nop4
check "an unknown architecture" unknown mips nop4

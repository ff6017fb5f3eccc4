#!/bin/sh
# Builds in every flavor, runs every test, and counts: make test. With CI set, a skip is a failure.
# With QUICK set it runs the programs as they are, and with ASan and UBSan, and nothing else.
cd "$(dirname "$0")/.."
unset CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKELEVEL STAPSDT_SITE STAPSDT_DIR STAPSDT_DEBUG
OUT=${OUT:-out}
CC=${CC:-cc}
export OUT CC
mkdir -p "$OUT"
results=$OUT/results
: >"$results"

collect() {
	tee -a "$results"
}

build() {
	flavor=$1
	shift
	if make -s -j2 WERROR=1 "$@" >"$OUT/build.log" 2>&1; then
		echo "ok build: $flavor"
	else
		sed 's/^/# /' "$OUT/build.log"
		echo "not ok build: $flavor"
	fi
}

# run FLAVOR DIRECTORY COMMAND... -- PROGRAM...: a bad exit status after the last line is a failure too.
run() {
	export TEST_FLAVOR=$1
	directory=$2
	shift 2
	with=
	while [ "$1" != -- ]; do
		with="$with $1"
		shift
	done
	shift
	for program; do
		$with "$directory/tests/$program" >"$OUT/run.log" 2>&1
		status=$?
		if [ $status -eq 0 ]; then
			grep -E '^(ok|not ok|skip|# )' "$OUT/run.log"
			continue
		fi
		sed '/^\(ok\|not ok\|skip\|#\) /! s/^/# /' "$OUT/run.log"
		grep -q '^not ok' "$OUT/run.log" || echo "not ok $program ($TEST_FLAVOR): exit status $status"
	done
	unset TEST_FLAVOR
}

# has FLAGS: reports whether the compiler has the library of a sanitizer.
has() {
	echo 'int main(void) { return 0; }' | "$CC" $1 -xc -o "$OUT/sanitizer" - 2>/dev/null && return
	echo "skip $1: $CC has no library for it: apt-get install libclang-rt-dev, or use gcc"
	return 1
}

all="define lifecycle bindings place directory fork fire nop alloc restrict threads sequence"
asan="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
{
	# Every valgrind reads DWARF 4 from every compiler.
	build plain OUT="$OUT" CFLAGS="-O2 -gdwarf-4" all demo tests
	run plain "$OUT" -- $all uprobe speed
	if has -fsanitize=address,undefined; then
		build "ASan and UBSan" OUT="$OUT/asan" CFLAGS="$asan" tests
		run "ASan and UBSan" "$OUT/asan" -- $all uprobe
	fi
	if [ -z "${QUICK:-}" ]; then
		if has -fsanitize=thread; then
			build TSan OUT="$OUT/tsan" CFLAGS="-O1 -g -fsanitize=thread" "$OUT/tsan/tests/threads"
			run TSan "$OUT/tsan" -- threads
		fi
		if command -v valgrind >/dev/null; then
			run valgrind "$OUT" valgrind -q --vgdb=no --leak-check=full --show-leak-kinds=all \
				--errors-for-leak-kinds=all --error-exitcode=9 --smc-check=all -- $all
		else
			echo "skip valgrind: apt-get install valgrind"
		fi
		for script in build image wrappers trace arm64; do
			sh "tests/$script.sh" 2>&1 || echo "not ok tests/$script.sh: exit status $?"
		done
	fi
} | collect

passed=$(grep -c '^ok ' "$results")
failed=$(grep -c '^not ok ' "$results")
skipped=$(grep -c '^skip ' "$results")
echo
if [ "$skipped" -gt 0 ]; then
	grep '^skip ' "$results"
	if [ -n "${CI:-}" ]; then
		failed=$((failed + skipped))
		echo "$skipped skipped, which is a failure where CI is set"
	else
		echo "$skipped skipped"
	fi
fi
grep '^not ok ' "$results"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

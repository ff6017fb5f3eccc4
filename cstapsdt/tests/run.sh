#!/bin/sh
# Builds in every flavor, runs every test, and counts: make test. With CI set, a skip is a failure.
# With QUICK set it runs the programs as they are, and with ASan and UBSan, and nothing else. JOBS is how many of them
# run at a time; what they print appears when all of a group have ended, in the order of the group.
cd "$(dirname "$0")/.."
unset CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKELEVEL STAPSDT_SITE STAPSDT_DIR STAPSDT_DEBUG
OUT=${OUT:-out}
CC=${CC:-cc}
JOBS=${JOBS:-$(nproc)}
export OUT CC
mkdir -p "$OUT/logs"
results=$OUT/results
: >"$results"

collect() {
	tee -a "$results"
}

build() {
	flavor=$1
	shift
	if make -s -j"$JOBS" WERROR=1 "$@" >"$OUT/build.log" 2>&1; then
		echo "ok build: $flavor"
	else
		sed 's/^/# /' "$OUT/build.log"
		echo "not ok build: $flavor"
	fi
}

# at_once COMMAND NAME...: runs the command with each name, and leaves what it prints in NAME.log and its status in NAME.status,
# which is 124 if it hangs.
at_once() {
	command=$1
	shift
	started=$(date +%s)
	export command
	rm -f "$OUT"/logs/*
	printf '%s\n' "$@" | xargs -P "$JOBS" -I{} sh -c \
		'eval "$command" >"$OUT/logs/$1.log" 2>&1; echo $? >"$OUT/logs/$1.status"' sh {}
	took=$(($(date +%s) - started))
}

# run FLAVOR DIRECTORY COMMAND... -- PROGRAM...: a bad exit status after the last line is a failure too.
run() {
	export TEST_FLAVOR="$1" directory="$2"
	shift 2
	with=
	while [ "$1" != -- ]; do
		with="$with $1"
		shift
	done
	shift
	at_once "timeout 600 $with "'"$directory/tests/$1"' "$@"
	for program; do
		log=$OUT/logs/$program.log
		status=$(cat "$OUT/logs/$program.status" || echo 255)
		if [ "$status" -eq 0 ]; then
			grep -E '^(ok|not ok|skip|# )' "$log"
			continue
		fi
		sed '/^\(ok\|not ok\|skip\|#\) /! s/^/# /' "$log"
		grep -q '^not ok' "$log" || echo "not ok $program ($TEST_FLAVOR): exit status $status"
	done
	echo "# $TEST_FLAVOR: $took s"
	unset TEST_FLAVOR
}

# run_scripts NAME...
run_scripts() {
	at_once 'timeout 1200 sh "tests/$1.sh"' "$@"
	for script; do
		cat "$OUT/logs/$script.log"
		status=$(cat "$OUT/logs/$script.status" || echo 255)
		[ "$status" -eq 0 ] || echo "not ok tests/$script.sh: exit status $status"
	done
	echo "# scripts: $took s"
}

# has FLAGS: reports whether the compiler has the library of a sanitizer.
has() {
	echo 'int main(void) { return 0; }' | "$CC" $1 -xc -o "$OUT/sanitizer" - 2>/dev/null && return
	echo "skip $1: $CC has no library for it: apt-get install libclang-rt-dev, or use gcc"
	return 1
}

all="define lifecycle bindings place directory fork forkstorm fire nop alloc restrict threads sequence record recordcancel recordclock recordend recordfile recordfork recordtable recordway socket standard where tracer"
asan="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
{
	# Every valgrind reads DWARF 4 from every compiler.
	build plain OUT="$OUT" CFLAGS="-O2 -gdwarf-4" all demo tests
	run plain "$OUT" -- $all uprobe
	if has -fsanitize=address,undefined; then
		build "ASan and UBSan" OUT="$OUT/asan" CFLAGS="$asan" tests
		run "ASan and UBSan" "$OUT/asan" -- $all uprobe
	fi
	if [ -z "${QUICK:-}" ]; then
		run plain "$OUT" -- speed
		if has -fsanitize=thread; then
			build TSan OUT="$OUT/tsan" CFLAGS="-O1 -g -fsanitize=thread" "$OUT/tsan/tests/threads" "$OUT/tsan/tests/record" \
				"$OUT/tsan/tests/socket" "$OUT/tsan/tests/where"
			run TSan "$OUT/tsan" -- threads record socket where
		fi
		if command -v valgrind >/dev/null; then
			# Without its fair scheduler, threads that only fire can keep the thread of the socket from running, forever.
			run valgrind "$OUT" valgrind -q --vgdb=no --fair-sched=try --leak-check=full --show-leak-kinds=all \
				--errors-for-leak-kinds=all --error-exitcode=9 --smc-check=all -- $all
		else
			echo "skip valgrind: apt-get install valgrind"
		fi
		run_scripts arm64 build image wrappers trace
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

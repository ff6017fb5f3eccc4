#!/usr/bin/env bash
# Boots other kernels and architectures under qemu, tests the library and the command on
# them (internal/test/kernels), and prints a table. Without a NAME it boots all of them.
#
#   scripts/lib/kernels.sh [--write | --quick] [NAME...]
#
#   NAME       amd64-5.10 amd64-6.1 amd64-6.12 amd64-7.2 arm64-6.1 arm64-6.12 arm64-7.2
#   --quick    runs the tests in short mode, without bpftrace, and by default only on a
#              kernel before 6.18, on 7.2 and on one of arm64; the command is tested on
#              the first of them
#   --write    puts the table of all kernels into docs/measured/kernels.md if nothing failed
#
# The kernels are Debian's, and bpftrace is that of the same release. The downloads are kept
# in $STAPSDT_CACHE, by default ~/.cache/stapsdt (about 2 GB). If kernels cannot be downloaded, and nothing has
# failed on the others, the status is that of debian.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/debian_kernel.sh
. scripts/lib/guest.sh
. scripts/lib/put_table.sh

all="amd64-5.10 amd64-6.1 amd64-6.12 amd64-7.2 arm64-6.1 arm64-6.12 arm64-7.2"
quick='' write=''
names=()
for arg in "$@"; do
	case " $all " in *" $arg "*) names+=("$arg"); continue ;; esac
	case $arg in
	--quick) quick=yes ;;
	--write) write=yes ;;
	*) echo "kernels.sh: unknown argument $arg; use one of: --quick --write $all" >&2; exit 2 ;;
	esac
done
if [ -n "$write" ] && [ "$quick${names[*]:-}" ]; then
	echo "kernels.sh: --write needs all kernels" >&2
	exit 2
fi
if [ ${#names[@]} -eq 0 ]; then
	if [ -n "$quick" ]; then names=(amd64-6.1 amd64-7.2 arm64-6.12); else read -ra names <<<"$all"; fi
fi

need qemu-system-x86_64=qemu-system-x86 qemu-system-aarch64=qemu-system-arm cpio=cpio \
	"$debian_keyring"=debian-archive-keyring >&2
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

cache=$(kernel_cache)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch_bpftrace SUITE ARCH makes an initramfs of the bpftrace of a release.
fetch_bpftrace() {
	local tree=$cache/bpftrace-$1-$2
	[ ! -e "$tree.cpio" ] || return 0
	echo "Downloading bpftrace of $1 for $2" >&2
	foreign_tree "$cache/apt/$1-$2" "$1" "$2" "$tree" bpftrace || return
	rm -rf "${tree:?}/usr/share" || return
	initramfs "$tree" >"$tree.cpio.new" && mv "$tree.cpio.new" "$tree.cpio" && rm -rf "$tree"
}

# build ARCH makes the initramfs in which the test binary is the first process, and which
# has the command.
build() {
	[ ! -e "$work/$1.cpio" ] || return 0
	test_guest "$work/$1" "$1" && initramfs "$work/$1" >"$work/$1.cpio"
}

passed=0 failed=0 unfetched=0

# check NAME waits for the end of a kernel, leaves its console in $console and the numbers of tests in $good and $bad,
# and shows the console if something is wrong with it.
check() {
	console=$work/console-$1
	wait "${boots[$1]}"
	good=$(count PASS) bad=$(count FAIL)
	# Also wrong: a run that does not come to its end, one without tests, and a
	# kernel that reports a fault of its own.
	if [ "$bad" -eq 0 ] && { [ "$good" -eq 0 ] || ! guest_passed "$console"; }; then bad=1; fi
	if [ "$bad" -ne 0 ]; then sed "s/^/$1: /" "$console" >&2; fi
	passed=$((passed + good)) failed=$((failed + bad))
}

# count RESULT [PREFIX] prints how many tests have a result, PASS, FAIL or SKIP. Only
# names with the prefix count. A test with subtests counts once.
count() { grep -c "^--- $1: ${2:-Test}" "$console" || true; }

# attribute NAME prints the value that a test gave it.
attribute() { sed -n "s/^=== ATTR  [^ ]* $1 //p" "$console" | head -n 1; }

# start NAME downloads and boots a kernel, which runs its tests in the background.
declare -A boots
start() {
	local suite arch=${1%%-*} flags=-test.short status=0
	suite=$(suite_of "$1")
	{ fetch_kernel "$1" "$cache" && build "$arch" && { [ -n "$quick" ] || fetch_bpftrace "$suite" "$arch"; }; } || status=$?
	if [ $status -ne 0 ]; then
		if [ $status -eq "$debian_fault" ]; then unfetched=$((unfetched + 1)); else failed=$((failed + 1)); fi
		return
	fi
	if [ -n "$quick" ]; then
		# It is the same command everywhere, and takes about as long as all the rest.
		[ "$1" = "${names[0]}" ] || flags+=" -test.skip=$command"
		boot "$arch" "$cache/kernel-$1" "$work/$arch.cpio" 1024 900 "$flags" >"$work/console-$1" &
	else
		cat "$work/$arch.cpio" "$cache/bpftrace-$suite-$arch.cpio" >"$work/large.cpio"
		boot "$arch" "$cache/kernel-$1" "$work/large.cpio" 2048 2400 >"$work/console-$1" &
	fi
	boots[$1]=$!
}

command=TestCommand of=TestBpftrace

# row NAME prints the row of a kernel, in which the tests of the command and those that use bpftrace have columns of their
# own.
row() {
	local bpftrace='' stapsdt=''
	[ -n "${boots[$1]:-}" ] || { echo "| $1 | not run | | | | | | |"; return; }
	check "$1"
	if [ -z "$quick" ]; then
		bpftrace=$(printf ' %s: %d passed, %d failed, %d skipped' "$(attribute bpftrace)" \
			"$(count PASS $of)" "$(count FAIL $of)" "$(count SKIP $of)")
		good=$((good - $(count PASS $of))) bad=$((bad - $(count FAIL $of)))
	fi
	if [ "$(count PASS $command)$(count FAIL $command)" != 00 ]; then
		stapsdt=$(printf ' %d passed, %d failed' "$(count PASS $command)" "$(count FAIL $command)")
	fi
	good=$((good - $(count PASS $command))) bad=$((bad - $(count FAIL $command)))
	echo "| $1 | $(attribute kernel) | $(attribute site) | $(attribute cost) | $good | $bad |$stapsdt |$bpftrace |"
}

# In this shell, as row counts. Those of --quick run at the same time; the others would have too little memory.
[ -z "$quick" ] || for name in "${names[@]}"; do start "$name"; done
exec 3>&1 >"$work/table"
echo "| name | kernel | site | traced cost of each kind | passed | failed | stapsdt | bpftrace |"
echo "|---|---|---|---|---|---|---|---|"
for name in "${names[@]}"; do
	[ -n "$quick" ] || start "$name"
	row "$name"
	tail -n 1 "$work/table" >&2
done
exec >&3
cat "$work/table"
echo
echo "$passed passed, $failed failed, $unfetched kernels not run"
[ "$failed" -eq 0 ] || exit 1
[ "$unfetched" -eq 0 ] || exit "$debian_fault"
[ -z "$write" ] || put_table measured/kernels "$work/table"

#!/usr/bin/env bash
# Boots Debian's kernels under qemu without lockdown, with lockdown=integrity and with lockdown=confidentiality, asks the
# same of each verb in all of them (TestLockdown in internal/test/kernels), and prints a table.
#
#   scripts/lib/lockdown.sh [--write] [NAME...]
#
#   NAME       amd64-6.1 amd64-6.12 amd64-7.2; all without one
#   --write    puts the table of all kernels into docs/measured/kernels.md if nothing failed
#
# The kernels are kept in $STAPSDT_CACHE, by default ~/.cache/stapsdt. If one cannot be downloaded, and nothing has failed
# on the others, the status is that of debian.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/debian_kernel.sh
. scripts/lib/guest.sh
. scripts/lib/put_table.sh

all="amd64-6.1 amd64-6.12 amd64-7.2"
write=''
names=()
for arg in "$@"; do
	case " $all " in *" $arg "*) names+=("$arg"); continue ;; esac
	[ "$arg" = --write ] || { echo "usage: lockdown.sh [--write] [NAME...], where NAME is one of: $all" >&2; exit 2; }
	write=yes
done
if [ -n "$write" ] && [ ${#names[@]} -gt 0 ]; then
	echo "lockdown.sh: --write needs all kernels" >&2
	exit 2
fi
[ ${#names[@]} -gt 0 ] || read -ra names <<<"$all"
need qemu-system-x86_64=qemu-system-x86 cpio=cpio "$debian_keyring"=debian-archive-keyring >&2
cache=$(kernel_cache)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

test_guest "$work/root"
initramfs "$work/root" >"$work/guest.cpio"

# guest NAME MODE INITRAMFS boots a kernel with a mode of lockdown, or none, and leaves its console in $work/console-NAME-MODE.
guest() {
	local parameters="lsm=lockdown,capability,yama,bpf" console=$work/console-$1-$2
	[ "$2" = none ] || parameters+=" lockdown=$2"
	boot "${1%%-*}" "$cache/kernel-$1" "$3" 1024 1500 "-test.run=^TestLockdown$" >"$console"
	guest_passed "$console" && return
	sed "s/^/$1, $2: /" "$console" >&2
	return 1
}

# kernel NAME boots a kernel in each mode.
kernel() {
	local values=$work/values-$1
	guest "$1" none "$work/guest.cpio" || return
	mkdir "$values" || return
	sed -n 's/^lockdown values: //p' "$work/console-$1-none" >"$values/values.json"
	initramfs "$values" | cat "$work/guest.cpio" - >"$values.cpio" || return
	guest "$1" integrity "$values.cpio" && guest "$1" confidentiality "$values.cpio"
}

failed=0 unfetched=0
consoles=()
for name in "${names[@]}"; do
	status=0
	fetch_kernel "$name" "$cache" || status=$?
	if [ $status -eq 0 ]; then
		echo "Trying $name" >&2
		kernel "$name" || failed=$((failed + 1))
		for mode in integrity confidentiality; do
			touch "$work/console-$name-$mode" # what did not run has no cells
			consoles+=("$work/console-$name-$mode")
		done
	elif [ $status -eq "$debian_fault" ]; then unfetched=$((unfetched + 1)); else failed=$((failed + 1)); fi
done

# The rows are in the order of the test. A console without a line has no cells.
awk -F '\t' '
	function path(file) { sub(/.*\/console-/, "", file); return file }
	BEGIN { for (i = 1; i < ARGC; i++) { kernel[i] = mode[i] = path(ARGV[i]); sub(/-[a-z]*$/, "", kernel[i]); sub(/.*-/, "", mode[i]); column[ARGV[i]] = i } }
	{ i = column[FILENAME] }
	/^=== ATTR  TestLockdown kernel / { kernel[i] = $0; sub(/.* /, "", kernel[i]) }
	sub(/^lockdown: /, "") && NF == 2 { if (!seen[$1]++) row[++rows] = $1; cell[$1, i] = $2 }
	END {
		line = "| verb |"; rule = "|---|"
		for (i = 1; i < ARGC; i++) { line = line " " kernel[i] ", " mode[i] " |"; rule = rule "---|" }
		print line
		print rule
		for (r = 1; r <= rows; r++) {
			line = "| " row[r] " |"
			for (i = 1; i < ARGC; i++) line = line " " ((row[r], i) in cell ? cell[row[r], i] : "failed") " |"
			print line
		}
	}' "${consoles[@]}" >"$work/table"
cat "$work/table"
passed=$(cat "$work/console-"* /dev/null | grep -c '^lockdown: .*	' || true)
echo
echo "$passed passed, $failed failed, $unfetched kernels not run"
[ "$failed" -eq 0 ] || exit 1
[ "$unfetched" -eq 0 ] || exit "$debian_fault"
[ -z "$write" ] || put_table measured/kernels "$work/table" lockdown

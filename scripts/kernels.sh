#!/usr/bin/env bash
# Boots other kernels and architectures under qemu, checks the library on them
# (internal/kerneltest), and prints a table.
#
#   scripts/kernels.sh [--readme | --quick] [NAME...]      all of them without a name
#
#   NAME       amd64-5.10 amd64-6.1 amd64-6.12 amd64-7.2 arm64-6.1 arm64-6.12 arm64-7.2
#   --quick    without bpftrace; unless named, only a kernel before 6.18, 7.2
#              and one of arm64
#   --readme   the table of all of them becomes README.md's, when all is well
#
# The kernels are Debian's, and bpftrace is the one of the same release. What was
# downloaded is kept in $STAPSDT_CACHE, by default ~/.cache/stapsdt (about 2 GB).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh
. scripts/debian.sh
. scripts/readme.sh

all="amd64-5.10 amd64-6.1 amd64-6.12 amd64-7.2 arm64-6.1 arm64-6.12 arm64-7.2"
quick='' readme=''
names=()
for arg in "$@"; do
	case " $all " in *" $arg "*) names+=("$arg"); continue ;; esac
	case $arg in
	--quick) quick=yes ;;
	--readme) readme=yes ;;
	*) echo "$arg is none of: --quick --readme $all" >&2; exit 2 ;;
	esac
done
if [ -n "$readme" ] && [ "$quick${names[*]:-}" ]; then
	echo "README's table is of all kernels" >&2
	exit 2
fi
if [ ${#names[@]} -eq 0 ]; then
	if [ -n "$quick" ]; then names=(amd64-6.1 amd64-7.2 arm64-6.12); else read -ra names <<<"$all"; fi
fi

need qemu-system-x86_64=qemu-system-x86 qemu-system-aarch64=qemu-system-arm cpio=cpio \
	"$debian_keyring"=debian-archive-keyring >&2
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

mkdir -p "${cache:=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}}"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# suite_of prints the Debian release that has a kernel.
suite_of() {
	case ${1#*-} in
	5.10) echo bullseye ;;
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	*) echo sid ;; # which goes on to later kernels: the table says which it was
	esac
}

# kernel_package SUITE ARCH prints the name of the package with the newest kernel.
# In sid that is one that the image depends on.
kernel_package() {
	local package=linux-image-cloud-$2 next
	while next=$(foreign_apt "$cache/apt/$1-$2" "$1" "$2" apt-cache depends "$package" |
		awk '$1 == "Depends:" && $2 ~ /^linux-(image|binary)-[0-9]/ { print $2 }') && [ -n "$next" ]; do
		package=$next
	done
	echo "$package"
}

# fetch_kernel NAME SUITE ARCH downloads a kernel.
fetch_kernel() {
	local kernel=$cache/kernel-$1 package new=$work/kernel
	[ ! -e "$kernel" ] || return 0
	package=$(kernel_package "$2" "$3") || return
	echo "Downloading $package" >&2
	rm -rf "$new" && mkdir "$new" || return
	(cd "$new" && foreign_apt "$cache/apt/$2-$3" "$2" "$3" apt-get -qq download "$package") || return
	dpkg-deb --fsys-tarfile "$new"/*.deb | tar -x -C "$new" --wildcards --transform 's|.*/||' '*/vmlinuz*' || return
	mv "$new"/vmlinuz* "$kernel.new" && mv "$kernel.new" "$kernel"
}

# fetch_bpftrace SUITE ARCH makes an initramfs of the bpftrace of a release.
fetch_bpftrace() {
	local tree=$cache/bpftrace-$1-$2
	[ ! -e "$tree.cpio" ] || return 0
	echo "Downloading bpftrace of $1 for $2" >&2
	foreign_tree "$cache/apt/$1-$2" "$1" "$2" "$tree" bpftrace || return
	rm -rf "${tree:?}/usr/share" || return
	initramfs "$tree" >"$tree.cpio.new" && mv "$tree.cpio.new" "$tree.cpio" && rm -rf "$tree"
}

# initramfs FOLDER prints it as one.
initramfs() { (cd "$1" && find . | cpio -o -H newc -R 0:0 --quiet); }

# build ARCH makes the initramfs of which the test program is the first process.
build() {
	[ ! -e "$work/$1.cpio" ] || return 0
	CGO_ENABLED=0 GOARCH=$1 go build -trimpath -ldflags='-s -w' -o "$work/$1/init" ./internal/kerneltest &&
		initramfs "$work/$1" >"$work/$1.cpio"
}

# boot NAME INITRAMFS MEGABYTES SECONDS FLAG... boots a kernel and prints its
# console. It is emulated always: that is the same everywhere, in a guest too.
# Without cx16, since under qemu 7.2 one in seven boots of Linux 6.12 crashed, often
# right behind a cmpxchg16b, and none of as many did without.
boot() {
	local kernel=$cache/kernel-$1 initrd=$2 memory=$3 seconds=$4 qemu console
	case $1 in
	amd64-*) qemu="qemu-system-x86_64 -M q35 -cpu max,-cx16" console=ttyS0 ;;
	arm64-*) qemu="qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on" console=ttyAMA0 ;;
	esac
	shift 4
	# shellcheck disable=SC2086 # several words
	timeout --foreground "$seconds" $qemu -accel tcg,thread=multi -smp 1 -m "$memory" -display none -nic none \
		-serial stdio -monitor none -no-reboot -kernel "$kernel" -initrd "$initrd" \
		-append "console=$console quiet panic=-1 -- -guest $*" </dev/null 2>&1 | tr -d '\r' ||
		echo "qemu ended with ${PIPESTATUS[0]}, of $seconds s"
}

passed=0 failed=0

# check NAME INITRAMFS MEGABYTES SECONDS FLAG... boots a kernel, leaves its console
# in $console and what the checks counted in $good and $bad, and shows the console
# when something is wrong with it.
check() {
	console=$work/console
	boot "$@" >"$console"
	read -r good bad < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$console"; echo 0 1)
	# A kernel that complains of itself has failed, whatever the checks say.
	if [ "$good$bad" = 00 ] || [ "$bad" = 0 ] && grep -qE '(BUG|Oops|WARNING): |Call Trace:' "$console"; then bad=1; fi
	if [ "$bad" -ne 0 ]; then sed "s/^/$1: /" "$console" >&2; fi
	passed=$((passed + good)) failed=$((failed + bad))
}

# line PATTERN prints what follows it in the console.
line() { sed -n "s/^$1//p" "$console" | head -n 1; }

# run NAME downloads and boots a kernel, and prints its row.
run() {
	local suite arch=${1%%-*} row
	suite=$(suite_of "$1")
	if ! { fetch_kernel "$1" "$suite" "$arch" && build "$arch" && { [ -n "$quick" ] || fetch_bpftrace "$suite" "$arch"; }; }; then
		failed=$((failed + 1))
		echo "| $1 | not run | | | | | |"
		return
	fi
	check "$1" "$work/$arch.cpio" 1024 180
	row="| $1 | $(line 'kernel ' | sed 's/ .*//') | $(line 'kernel .*, site ') | $(line 'ok site\/cost: ') | $good | $bad |"
	if [ -n "$quick" ]; then
		echo "$row |"
		return
	fi
	cat "$work/$arch.cpio" "$cache/bpftrace-$suite-$arch.cpio" >"$work/large.cpio"
	check "$1" "$work/large.cpio" 2048 900 -bpftrace
	echo "$row $(line 'ok bpftrace\/version: '): $good passed, $bad failed, $(grep -c '^skipped ' "$console" || true) skipped |"
}

# In this shell, as run counts.
exec 3>&1 >"$work/table"
echo "| name | kernel | site | traced cost of each kind | passed | failed | bpftrace |"
echo "|---|---|---|---|---|---|---|"
for name in "${names[@]}"; do
	run "$name"
	tail -n 1 "$work/table" >&2
done
exec >&3
cat "$work/table"
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
[ -z "$readme" ] || readme_table kernels "$work/table"

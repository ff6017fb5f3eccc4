#!/usr/bin/env bash
# Builds modules for Debian's newest kernel with SystemTap, one for each program, runs them on
# that kernel under qemu (internal/test/kernels), and prints a table of what they have read.
#
#   scripts/lib/systemtap.sh [--write]
#
# --write puts the table into docs/measured/tracers.md if nothing failed. SystemTap, the kernel and its
# headers come from Debian sid. They are in a tree of about a gigabyte in $STAPSDT_CACHE, which
# is made again when it is a week old. It needs root, for chroot and mounts.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/guest.sh
. scripts/lib/newest.sh
. scripts/lib/put_table.sh

# The programs: a name, the probe that is traced, and the command, which fires for as long as its
# standard input is open or until it is ended.
programs="
go-cgo-file     wide /systemtap/go-cgo systemtap
go-cgo-memfd    wide /systemtap/go-cgo -memfd systemtap
go-pure-file    wide /systemtap/go-pure systemtap
go-pure-memfd   wide /systemtap/go-pure -memfd systemtap
c-file          pair /systemtap/demo -f -t 10 systemtap pair
c-memfd         pair /systemtap/demo -t 10 systemtap pair
"

# What the modules print of an event. There are as many as a test compares.
events=10
# shellcheck disable=SC2016 # they are variables of SystemTap
declare -A print=(
	[pair]='"event %d %d\n", $arg1, $arg2'
	[wide]='"event %d %s %d %d %d %d %d %u %d %d %s %d\n", $arg1, user_string($arg2), $arg3, $arg4, $arg5, $arg6, $arg7, $arg8, $arg9, $arg10, user_string($arg11), $arg12'
)

# modules TREE DIRECTORY starts each program in the tree, and builds a module for its image there
# while it runs. The directory is the programs', and gets one of each program, with its command,
# the path of its image and the module.
modules() {
	local tree=$1 name probe command path pid
	mount_tree "$tree"
	mkdir -p "$tree/systemtap"
	mount --bind "$2" "$tree/systemtap"
	# The path of an image in a file depends on the nop, which is that of the newest kernels.
	export STAPSDT_SITE=nop10 STAPSDT_DIR=/systemtap TMPDIR=/systemtap HOME=/systemtap
	# That of one in memory depends on the descriptors that are open, of which Go has two more
	# where there are control groups. The guest has none.
	export GODEBUG=containermaxprocs=0
	chroot "$tree" ldconfig
	while read -r name probe command; do
		[ -n "$name" ] || continue
		mkdir "$2/$name"
		echo "$command" >"$2/$name/command"
		mkfifo "$2/$name/input"
		# shellcheck disable=SC2086 # several words
		chroot "$tree" $command <"$2/$name/input" >"$2/$name/output" 2>&1 &
		pid=$!
		exec 3>"$2/$name/input"
		until path=$(sed -n 's/.*loaded as \([^;]*\);.*/\1/p' "$2/$name/output") && [ -n "$path" ]; do
			kill -0 "$pid"
			sleep 0.1
		done
		echo "$path" >"$2/$name/path"
		echo "Building the module of $name" >&2
		# shellcheck disable=SC2016 # the inner shell expands these
		chroot "$tree" sh -c 'cd "$1" && stap -r "$(ls /lib/modules)" -p4 -m systemtap -e "$2" >build 2>&1 || { cat build >&2; exit 1; }' sh "/systemtap/$name" \
			"global n; probe process(\"$path\").provider(\"systemtap\").mark(\"$probe\") { printf(${print[$probe]}); if (++n == $events) exit() }"
		exec 3>&-
		kill "$pid" 2>/dev/null || true
		wait "$pid" || true
		rm "$2/$name/input"
	done <<<"$programs"
}
if [ "${1:-}" = --inside ]; then
	modules "$2" "$3"
	exit
fi

write=''
case $# in
0) ;;
1) [ "$1" = --write ] || { echo "usage: systemtap.sh [--write]" >&2; exit 2; } && write=yes ;;
*) echo "usage: systemtap.sh [--write]" >&2; exit 2 ;;
esac
need qemu-system-x86_64=qemu-system-x86 cpio=cpio gcc=gcc make=make /usr/include/libelf.h=libelf-dev \
	"$debian_keyring"=debian-archive-keyring >&2
tree=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}/systemtap/sid
# The essential packages, on which the others do not say that they depend, are among them.
packages=(systemtap linux-image-cloud-amd64 linux-headers-cloud-amd64 gcc make bash dash libc-bin coreutils sed grep mawk findutils diffutils hostname gzip perl-base)
if [ -z "$(find "$tree/complete" -mtime -7 2>/dev/null)" ]; then
	echo "Unpacking SystemTap and its kernel to $tree" >&2
	mkdir -p "$(dirname "$tree")"
	foreign_tree "$tree.apt" sid amd64 "$tree" "${packages[@]}"
	[ -e "$tree/usr/bin/awk" ] || ln -s mawk "$tree/usr/bin/awk"
	[ -e "$tree/usr/bin/sh" ] || ln -s dash "$tree/usr/bin/sh"
	touch "$tree/complete"
fi

work=$(mktemp -d)
trap '$sudo rm -rf "$work"' EXIT
guest=$work/guest
mkdir -p "$guest/systemtap" "$guest/usr/lib" "$guest/usr/bin" "$guest/etc"
for directory in bin sbin lib lib64; do
	mkdir -p "$guest/usr/$directory"
	ln -s "usr/$directory" "$guest/$directory"
done
CGO_ENABLED=1 go build -trimpath -o "$guest/systemtap/go-cgo" ./internal/test/tracers/subject
CGO_ENABLED=0 go build -trimpath -o "$guest/systemtap/go-pure" ./internal/test/tracers/subject
CGO_ENABLED=0 go test -c -trimpath -ldflags='-s -w' -o "$guest/init" ./internal/test/kernels
make -s -C cstapsdt OUT="$work/c" DEMO="$guest/systemtap/demo" "$guest/systemtap/demo"

version=$($sudo chroot "$tree" /usr/bin/stap --version 2>&1 | sed -n 's|.*version \([0-9.]*\)/.*|\1|p')
$sudo unshare --mount --propagation private scripts/lib/systemtap.sh --inside "$tree" "$guest/systemtap"

# What runs the modules, with its libraries and those of the programs.
runners=(/usr/bin/staprun /usr/lib/systemtap/stapio /usr/bin/sh)
$sudo mkdir -p "$tree/systemtap"
libraries=$(for file in "${runners[@]}"; do $sudo chroot "$tree" ldd "$file"; done | tr -s '[:blank:]' '\n' | grep '^/' | sort -u
	ldd "$guest/systemtap/go-cgo" "$guest/systemtap/demo" | tr -s '[:blank:]' '\n' | grep '^/.*[^:]$' | sort -u)
for file in "${runners[@]}" $(sort -u <<<"$libraries"); do
	source=$tree$file
	[ -e "$source" ] || source=$file
	install -D "$source" "$guest$file" # without the set-user-ID bit: it is root who runs them
done
printf 'root:x:0:0:root:/tmp:/bin/sh\n' >"$guest/etc/passwd"
printf 'root:x:0:\nstapusr:x:1:\nstapsys:x:2:\nstapdev:x:3:\n' >"$guest/etc/group"
initramfs "$guest" >"$work/guest.cpio"
kernels=("$tree"/usr/lib/modules/*/vmlinuz "$tree"/boot/vmlinuz-*)
for kernel in "${kernels[@]}"; do [ ! -e "$kernel" ] || break; done
boot amd64 "$kernel" "$work/guest.cpio" 1536 600 -test.run=SystemTap | tee "$work/console" >&2

attribute() { sed -n "s/^ *=== ATTR  [^ ]* $1 //p" "$work/console" | head -n 1; }
{
	echo "| tracer | version | kernel | Go, cgo, file | Go, cgo, memfd | pure Go, file | pure Go, memfd | C, file | C, memfd |"
	echo "|---|---|---|---|---|---|---|---|---|"
	printf '| SystemTap | %s | %s |' "$version" "$(attribute kernel)"
	while read -r name _; do
		[ -n "$name" ] || continue
		if grep -q "^ *--- PASS: TestSystemTap/$name " "$work/console"; then printf ' works |'; else printf ' **fails** |'; fi
	done <<<"$programs"
	echo
} >"$work/table"
cat "$work/table"
grep -qx 'guest: passed' "$work/console" && ! grep -q 'fails' "$work/table" || exit 1
[ -z "$write" ] || put_table measured/tracers "$work/table" systemtap

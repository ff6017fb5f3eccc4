#!/usr/bin/env bash
# Attaches every tracer that can be had to Go programs in both builds and to the C
# library's demo, compares what they print with what was fired, and prints a table.
#
#   tracers.sh [--readme] [--table FILE] [NAME]
#
# With --readme the table in README.md is replaced if nothing failed, with --table
# it is written to a file. With a NAME, such as bpftrace or gdb, only the tracers of
# that name are run. Debian's or Ubuntu's own tracers are installed where they are
# missing. The newest ones are those of Debian sid, in a tree of about a gigabyte in
# $STAPSDT_CACHE, which is made again when it is a week old.
#
# What is mounted is mounted for this run alone, and gone when it ends.
set -euo pipefail
start=$PWD
cd "$(dirname "$0")/.."

# inside TREE COMMAND... runs with the mounts that tracers want, in a mount namespace
# that nobody else sees.
inside() {
	local tree=$1
	shift
	# Whoever traces by path from inside of the tree must see the same files.
	for folder in proc sys dev tmp run; do mkdir -p "$tree/$folder"; done
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
	for folder in proc sys dev tmp; do mount --rbind "/$folder" "$tree/$folder"; done
	exec "$@"
}
if [ "${1:-}" = --inside ]; then
	shift
	inside "$@"
fi

. scripts/install.sh
. scripts/debian.sh
. scripts/readme.sh

usage() {
	echo "usage: tracers.sh [--readme] [--table FILE] [NAME]" >&2
	exit 2
}
readme='' table='' name=''
while [ $# -gt 0 ]; do
	case $1 in
	--readme) readme=1 ;;
	--table)
		[ $# -gt 1 ] || usage
		case $2 in /*) table=$2 ;; *) table=$start/$2 ;; esac
		shift
		;;
	-*) usage ;;
	*) name=$1 ;;
	esac
	shift
done
if [ -n "$readme" ] && [ -n "$name" ]; then
	echo "The table of $name alone is not the README's" >&2
	exit 2
fi

machine=$(uname -m)
need gcc=gcc make=make clang=clang unshare=util-linux bpftrace=bpftrace tplist-bpfcc=bpfcc-tools "perf=linux-perf|linux-tools-$(uname -r)|linux-tools-generic" gdb=gdb \
	readelf=binutils eu-readelf=elfutils trace-cmd=trace-cmd uftrace=uftrace lttng=lttng-tools stap=systemtap \
	/usr/include/libelf.h=libelf-dev /usr/include/bpf/usdt.bpf.h=libbpf-dev \
	/usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

# newest TREE unpacks the newest tracers, with the headers of Debian's kernel in the
# place of those of the running one: a program that traces user space wants any.
newest() {
	local tree=$1 arch packages release common specific
	arch=$(dpkg --print-architecture)
	packages=(bpftrace bpfcc-tools linux-perf gdb binutils elfutils libbpf-dev systemtap coreutils "linux-headers-$arch")
	if [ -n "$(find "$tree/complete" -mtime -7 2>/dev/null)" ] && [ "$(cat "$tree/complete")" = "${packages[*]}" ]; then
		return
	fi
	echo "Unpacking Debian's newest tracers to $tree"
	foreign_tree "$tree.apt" sid "$arch" "$tree" "${packages[@]}" || return
	release=$tree/lib/modules/$(uname -r)
	common=("$tree"/usr/src/linux-headers-*-common)
	specific=("$tree"/usr/src/linux-headers-*-"$arch")
	mkdir -p "$release" &&
		ln -sfn "${common[0]#"$tree"}" "$release/source" &&
		ln -sfn "${specific[0]#"$tree"}" "$release/build" &&
		echo "${packages[*]}" >"$tree/complete"
}
tree=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}/tracers/sid
mkdir -p "$(dirname "$tree")"
# An old tree is better than none.
newest "$tree" || [ -e "$tree/complete" ]

# Everything is below /tmp, which is the same in the tree.
work=$(mktemp -d /tmp/stapsdt-tracers.XXXXXX)
trap '$sudo rm -rf "$work"' EXIT
mkdir "$work/home" "$work/images"

echo "Building the programs"
CGO_ENABLED=1 go build -o "$work/go-cgo" ./internal/tracers/subject
CGO_ENABLED=0 go build -o "$work/go-pure" ./internal/tracers/subject
CGO_ENABLED=0 go build -C internal/tracers/ebpf -o "$work/ebpf" .
CGO_ENABLED=0 go test -c -o "$work/tracers.test" ./internal/tracers
make -s -C cstapsdt OUT="$work/c" DEMO="$work/demo" "$work/demo"
case $machine in x86_64) target=x86 ;; aarch64) target=arm64 ;; *) target=$machine ;; esac
# libbpf and its header usdt.bpf.h, which is compiled into the object, must be of one version.
mkdir "$work/bpf" "$work/bpf.newest"
ln -s /usr/include/bpf "$work/bpf"
ln -s "$tree/usr/include/bpf" "$work/bpf.newest"
for version in bpf bpf.newest; do
	clang -O2 -g -Wall -Werror -target bpf "-D__TARGET_ARCH_$target" -I"$work/$version" -I"/usr/include/$machine-linux-gnu" \
		-c internal/tracers/libbpf/usdt.bpf.c -o "$work/usdt.$version.o"
done
cc -O2 -Wall -Wextra -Werror internal/tracers/libbpf/usdt.c -o "$work/usdt" -lbpf

status=0
$sudo env HOME="$work/home" TMPDIR="$work" STAPSDT_DIR="$work/images" LC_ALL=C CI="${CI:-}" \
	unshare --mount --propagation private scripts/tracers.sh --inside "$tree" \
	"$work/tracers.test" -test.timeout 10m -test.run "^Test.*${name:+/$name}" \
	-programs "$work" -foreign "$tree" -table "$work/table.md" || status=$?

[ -z "$table" ] || cp "$work/table.md" "$table"
if [ -n "$readme" ] && [ "$status" -eq 0 ]; then
	readme_table tracers "$work/table.md"
fi
exit "$status"

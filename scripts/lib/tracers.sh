#!/usr/bin/env bash
# Attaches every available tracer to Go programs in both builds and to the C library's demo,
# compares what they print with what was fired, and prints a table. Another is of the D scripts
# of the examples, with the examples in each language.
#
#   tracers.sh [--write] [--table FILE] [NAME]
#
# --write replaces the table in docs/measured/tracers.md if nothing failed, and --table writes it to a
# file. With a NAME, such as bpftrace or gdb, only the tracers of that name run. The script installs Debian's or
# Ubuntu's own tracers if they are missing. The newest tracers are those of Debian sid, in a
# tree of about a gigabyte in $STAPSDT_CACHE, which is rebuilt when it is a week old.
#
# The mounts exist only for this run.
set -euo pipefail
start=$PWD
cd "$(dirname "$0")/../.."

. scripts/lib/newest.sh

# inside TREE COMMAND... runs the command with the mounts that tracers need, in a mount
# namespace of its own.
inside() {
	local tree=$1
	shift
	mount_tracefs
	mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
	mount_tree "$tree"
	exec "$@"
}
if [ "${1:-}" = --inside ]; then
	shift
	inside "$@"
fi

. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/put_table.sh

usage() {
	echo "usage: tracers.sh [--write] [--table FILE] [NAME]" >&2
	exit 2
}
write='' table='' name=''
while [ $# -gt 0 ]; do
	case $1 in
	--write) write=1 ;;
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
if [ -n "$write" ] && [ -n "$name" ]; then
	echo "tracers.sh: --write needs all tracers" >&2
	exit 2
fi

machine=$(uname -m)
need gcc=gcc make=make clang=clang unshare=util-linux bpftrace=bpftrace tplist-bpfcc=bpfcc-tools "perf=linux-perf|linux-tools-$(uname -r)|linux-tools-generic" gdb=gdb \
	readelf=binutils eu-readelf=elfutils llvm-dwarfdump=llvm trace-cmd=trace-cmd uftrace=uftrace lttng=lttng-tools stap=systemtap \
	/usr/include/libelf.h=libelf-dev /usr/include/bpf/usdt.bpf.h=libbpf-dev \
	/usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring \
	/usr/bin/python3=python3 perl=perl /usr/share/doc/libffi-platypus-perl=libffi-platypus-perl /usr/bin/ruby=ruby /usr/bin/php=php-cli \
	node=nodejs npm=npm javac=default-jdk-headless
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

newest_tracers

# Everything is below /tmp, which is the same in the tree.
work=$(mktemp -d /tmp/stapsdt-tracers.XXXXXX)
trap '$sudo rm -rf "$work"' EXIT
mkdir "$work/home" "$work/images"

echo "Building the programs"
CGO_ENABLED=1 go build -o "$work/go-cgo" ./internal/test/tracers/subject
CGO_ENABLED=0 go build -o "$work/go-pure" ./internal/test/tracers/subject
CGO_ENABLED=0 go test -c -o "$work/tracers.test" ./internal/test/tracers
make -s -C cstapsdt OUT="$work/c" DEMO="$work/demo" "$work/demo" "$work/c/libstapsdt.so" "$work/c/libstapsdt.a"
for example in http lua wasm; do go build -o "$work/$example" "./examples/$example"; done
cc -O2 -Icstapsdt -o "$work/lines" examples/c/lines.c "$work/c/libstapsdt.a" -lelf -ldl
make -s -C cstapsdt/bindings/java OUT="$work/java" CFLAGS="-O2 -L$work/c"
mkdir "$work/node"
cp cstapsdt/bindings/node/package.json "$work/node"
persistently npm install --silent --prefix "$work/node"
case $machine in x86_64) target=x86 ;; aarch64) target=arm64 ;; *) target=$machine ;; esac
# libbpf and its header usdt.bpf.h, which is compiled into the object, must be of one version.
mkdir "$work/bpf" "$work/bpf.newest"
ln -s /usr/include/bpf "$work/bpf"
ln -s "$tree/usr/include/bpf" "$work/bpf.newest"
for version in bpf bpf.newest; do
	clang -O2 -g -Wall -Werror -target bpf "-D__TARGET_ARCH_$target" -I"$work/$version" -I"/usr/include/$machine-linux-gnu" \
		-c internal/test/tracers/libbpf/usdt.bpf.c -o "$work/usdt.$version.o"
done
cc -O2 -Wall -Wextra -Werror internal/test/tracers/libbpf/usdt.c -o "$work/usdt" -lbpf

status=0
$sudo env HOME="$work/home" TMPDIR="$work" STAPSDT_DIR="$work/images" LC_ALL=C CI="${CI:-}" \
	unshare --mount --propagation private scripts/lib/tracers.sh --inside "$tree" \
	"$work/tracers.test" -test.timeout 30m -test.run "^Test.*${name:+/$name}" \
	-programs "$work" -foreign "$tree" -table "$work/table.md" || status=$?

[ -z "$table" ] || cp "$work/table.md" "$table"
if [ -n "$write" ] && [ "$status" -eq 0 ]; then
	put_table measured/tracers "$work/table.md"
fi
exit "$status"

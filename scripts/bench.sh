#!/usr/bin/env bash
# Measures what probes cost when idle, when traced, and to load, next to the alternatives,
# and prints a table in Markdown.
#
#   scripts/bench.sh [--quick] [--write] [--check] [--recorded | --functions | --command]
#
#   --quick       measures fewer rounds
#   --write       also writes docs/measured/cost.md, and the tables of docs/cost.md; it needs all parts
#   --check       also compares the figures with the targets, and fails if one is missed
#   --recorded    measures only recorded events, by the processor's counter and by another clock
#   --functions   measures only the functions of programs without probes
#   --command     measures only what the command takes
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/install.sh

for option in "$@"; do
	case $option in
	--quick | --write | --check | --recorded | --functions | --command) ;;
	*)
		sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
		exit 2
		;;
	esac
done

need gcc=gcc make=make bpftrace=bpftrace /usr/include/libelf.h=libelf-dev lttng=lttng-tools /usr/include/"$(uname -m)"-linux-gnu/lttng/tracepoint.h=liblttng-ust-dev \
	/usr/include/"$(uname -m)"-linux-gnu/sys/sdt.h=systemtap-sdt-dev
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

# Images are kept in memory if possible, as they are by default below $XDG_RUNTIME_DIR: the
# time that a disk's file system needs for a new file, and for finding a free inode, must not
# be measured. (The C library keeps its images in /tmp.)
memory() {
	local dir
	for dir in "${XDG_RUNTIME_DIR:-}" /dev/shm; do
		if [ -w "$dir" ] && [ "$(stat -f -c %T "$dir")" = tmpfs ] && ! findmnt -no OPTIONS -T "$dir" | grep -qw noexec; then
			echo "$dir"
			return
		fi
	done
	echo "${TMPDIR:-/tmp}"
}

work=$(mktemp -d)
images=$(mktemp -d -p "$(memory)")
# shellcheck disable=SC2154 # install.sh sets it
trap '$sudo rm -rf "$work" "$images"' EXIT

CGO_ENABLED=0 go build -o "$work/subject-go" ./internal/test/bench/subject
CGO_ENABLED=1 go build -o "$work/subject-cgo" ./internal/test/bench/subject
CGO_ENABLED=0 go build -o "$work/subject-live" ./internal/test/bench/live/subject
CGO_ENABLED=0 go build -o "$work/functions" ./internal/test/bench/functions
for tags in "" probes bare named env; do
	CGO_ENABLED=0 go build -tags "$tags" -o "$work/hello${tags:+-$tags}" ./internal/test/bench/hello
	CGO_ENABLED=0 go build -tags "$tags" -ldflags '-s -w' -o "$work/hello-stripped${tags:+-$tags}" ./internal/test/bench/hello
done
make -s -C cstapsdt OUT="$work/lib" "$work/lib/libstapsdt.a"
gcc -std=gnu11 -O2 -Wall -Wextra -I cstapsdt -o "$work/csubject" internal/test/bench/csubject/subject.c "$work/lib/libstapsdt.a" -lelf -ldl
gcc -std=gnu11 -O2 -Wall -Wextra -I internal/test/bench/lttng -o "$work/lttngsubject" internal/test/bench/lttng/subject.c -llttng-ust -ldl -lpthread

CGO_ENABLED=0 go build -o "$work/stapsdt" ./cmd/stapsdt
CGO_ENABLED=0 go build -ldflags '-s -w' -o "$work/stapsdt-stripped" ./cmd/stapsdt
CGO_ENABLED=0 go test -c -o "$work/table" ./internal/test/bench/table
$sudo "$work/table" -test.run - -test.bench '^BenchmarkTable$' -test.benchtime 1x -test.timeout 0 -work "$work" -images "$images" "$@"

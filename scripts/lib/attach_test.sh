#!/usr/bin/env bash
# Tests scripts/attach.sh, as root: each status, and each place where an image can be, with
# the installed bpftrace and with the newest one. The last line says how many checks passed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/newest.sh
. scripts/lib/check.sh

need bpftrace=bpftrace setpriv=util-linux unshare=util-linux \
	/usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "This attaches tracers: run it as root." >&2; exit 2; }
# The mounts exist only for this run.
[ "${1:-}" = --inside ] || exec unshare --mount --propagation private "$0" --inside
. scripts/lib/background.sh

# says STATUS PATTERN COMMAND...: the command exits with the status and prints one line, which
# matches.
says() {
	local want=$1 pattern=$2 status=0
	shift 2
	"$@" >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	[ $status -eq "$want" ] && [ "$(wc -l <"$work/said")" -eq 1 ] && grep -Eq "$pattern" "$work/said"
}

# may_do_without RIGHT COMMAND...: the command succeeds without the right, or says that it
# needs it, depending on versions.
may_do_without() {
	local right=$1
	shift
	says 0 ' fired$' "$@" || says 4 "$right" "$@"
}

# hello ENVIRONMENT... starts examples/hello.
hello() { start env "$@" "$work/hello"; }

# isolated starts hello in namespaces of its own, where it finds no directory and has another
# PID. outside is the process that started it.
isolated() {
	start unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /hello' "$work/scratch"
	outside=$pid pid=$(pgrep -P "$pid") # there is one, because it has printed something
	background+=("$pid")
}

# beside COMMAND... runs it in the PID namespace of a process, like a container beside it.
beside() {
	nsenter --target "$pid" --pid -- unshare --mount sh -c \
		'mount -t proc proc /proc; [ ! -d "$0/proc" ] || mount -t proc proc "$0/proc"; exec "$@"' "${tree:-/nowhere}" "$@"
}

# without_tracefs COMMAND...
without_tracefs() {
	unshare --mount sh -c 'for directory in "" "$0"; do
		umount -l "$directory/sys/kernel/debug" "$directory/sys/kernel/tracing" 2>/dev/null
	done; exec "$@"' "${tree:-/nowhere}" "$@"
}

mkdir -p "$work/scratch/proc" "$work/broken" "$work/none" "$work/newest"
CGO_ENABLED=0 go build -o "$work/hello" ./examples/hello
cp "$work/hello" "$work/scratch"
mount_tracefs

# statuses checks what is the same with every version.
statuses() {
	check "usage" says 2 usage: scripts/attach.sh
	check "a name with a space" says 2 space scripts/attach.sh $$ 'my app:other'
	check "no such process" says 3 'does not exist' scripts/attach.sh 4194304 hello:greeting
	check "may not attach" says 4 CAP_SYS_ADMIN setpriv --bounding-set -sys_admin,-bpf scripts/attach.sh $$ hello:greeting
	for tool in bash cat id sed; do ln -s "$(command -v $tool)" "$work/none"; done
	check "no bpftrace" says 5 install env PATH="$work/none" bash scripts/attach.sh $$ hello:greeting
	check "no probes" says 6 'has no probes' scripts/attach.sh $$ hello:greeting
	printf '#!/bin/sh\necho "ERROR: It is broken." >&2\nexit 127\n' >"$work/broken/bpftrace"
	chmod +x "$work/broken/bpftrace"
	check "bpftrace is broken" says 8 'does not run here: It is broken\.$' env PATH="$work/broken:$PATH" scripts/attach.sh $$ hello:greeting
	printf '#!/bin/sh\nexit 127\n' >"$work/broken/bpftrace"
	check "bpftrace is broken and silent" says 8 'with status 127' env PATH="$work/broken:$PATH" scripts/attach.sh $$ hello:greeting
	# The child ends only when its parent is sleep, which leaves it a zombie.
	start sh -c '{ until [ "$(cat "/proc/$$/comm")" = sleep ]; do sleep 0.1; done; } & echo $!; exec sleep 3600'
	ended=$(cat "$work/out")
	eventually grep -q '^State:[[:space:]]*Z' "/proc/$ended/status"
	check "ended" says 3 ended scripts/attach.sh "$ended" hello:greeting
	hello STAPSDT_DIR="$work/images"
	check "may not look" says 4 CAP_SYS_PTRACE setpriv --bounding-set -sys_ptrace scripts/attach.sh $pid hello:greeting
	check "stopped, it does not fire" says 1 'did not fire' sh -c "kill -STOP $pid; scripts/attach.sh $pid hello:greeting 2"
	kill -CONT $pid # a stopped process would not end with the others
}

# places VERSION checks each place where an image can be.
places() {
	hello STAPSDT_DIR="$work/images"
	check "$1: a file" says 0 '^hello:greeting fired$' scripts/attach.sh $pid hello:greeting
	check "$1: without the provider" says 0 '^greeting fired$' scripts/attach.sh $pid greeting
	check "$1: no such probe" says 7 'has no probe hello:other, but has hello:greeting$' scripts/attach.sh $pid hello:other
	check "$1: a file, not CAP_SYS_ADMIN" may_do_without CAP_SYS_ADMIN \
		setpriv --bounding-set -sys_admin scripts/attach.sh $pid hello:greeting
	hello STAPSDT_DIR="$work/deleted"
	rm "$work/deleted"/*
	check "$1: a deleted file" says 0 fired scripts/attach.sh $pid hello:greeting
	check "$1: a deleted file, no such probe" says 7 'but has hello:greeting$' scripts/attach.sh $pid hello:other
	check "$1: a deleted file that may not be opened" says 4 CAP_SYS_ADMIN \
		setpriv --bounding-set -sys_admin,-checkpoint_restore scripts/attach.sh $pid hello:greeting
	hello -u XDG_RUNTIME_DIR -u STAPSDT_DIR TMPDIR=/nowhere/all
	check "$1: in memory" says 0 fired scripts/attach.sh $pid hello:greeting
	check "$1: in memory, not CAP_SYS_ADMIN" may_do_without CAP_SYS_ADMIN \
		setpriv --bounding-set -sys_admin scripts/attach.sh $pid hello:greeting
	isolated
	check "$1: in memory, in another mount namespace" says 0 fired scripts/attach.sh $pid hello:greeting
	check "$1: in memory, from beside it" says 0 fired beside scripts/attach.sh 1 hello:greeting
	check "$1: from beside it, no such probe" says 7 'but has hello:greeting$' beside scripts/attach.sh 1 hello:other
	kill "$outside"
}

statuses
places "$(bpftrace --version | sed 's/.* v/bpftrace /')"
hello STAPSDT_DIR="$work/images"
check "no tracefs, which 0.24 and earlier do without" without_tracefs scripts/attach.sh $pid hello:greeting

if debian_archive >/dev/null; then
	newest_tracers
	mount_tree "$tree"
	printf '#!/bin/sh\nexec chroot "%s" bpftrace "$@"\n' "$tree" >"$work/newest/bpftrace"
	chmod +x "$work/newest/bpftrace"
	PATH=$work/newest:$PATH
	places "$(bpftrace --version | sed 's/.* v/bpftrace /')"
	hello STAPSDT_DIR="$work/images"
	check "no tracefs" says 8 'does not run here: .*/sys/kernel/tracing/.*: run mount -t tracefs' \
		without_tracefs scripts/attach.sh $pid hello:greeting
fi

echo
verdict

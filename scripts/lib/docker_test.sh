#!/usr/bin/env bash
# Builds the images of the Dockerfile and runs the commands of docs/containers.md, with their
# bpftrace and with the newest one. It needs root.
#
#   docker_test.sh [--built]
#
#   --built   uses the existing images stapsdt-toolchain and hello
#
# The last line says how many checks passed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/newest.sh
. scripts/lib/check.sh
. scripts/lib/background.sh

need bpftrace=bpftrace docker=docker.io /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
[ "$(id -u)" -eq 0 ] || { echo "This attaches tracers: run it as root." >&2; exit 2; }

app=docs$$ newest=newest$$ mounted=
cleanup() {
	docker rm -f "$app" >/dev/null 2>&1 || true
	docker rmi "$newest" >/dev/null 2>&1 || true
	[ -z "$mounted" ] || umount /sys/kernel/tracing
	finish
}
trap cleanup EXIT
mountpoint -q /sys/kernel/tracing || { mount -t tracefs tracefs /sys/kernel/tracing && mounted=1; }

# shown BEGINNING: a command of docs/containers.md and the lines that continue it, for a container
# and a time of this run, and without a terminal.
shown() {
	awk -v begin="    $1" 'index($0, begin) == 1 { on = 1 } on { print } on && !/\\$/ { exit }' docs/containers.md |
		sed "s/ -it / --network none /;s/ -d / -d --network none /;s/\bapp\b/$app/;s/bpftrace -p/timeout -s INT 20 bpftrace -B line -p/"
}

# greets COMMAND: it prints what hello says to a tracer.
greets() { sees '^hello, tracer [0-9]+ [0-9]+$' bash -c "$1"; }

if [ "${1:-}" != --built ]; then
	check "docker build, toolchain" docker build --network host --target toolchain -t stapsdt-toolchain .
	check "docker build, hello" docker build --network host --target hello -t hello .
fi
check "docker run hello" bash -c "$(shown 'docker run -d')"
check "bpftrace beside it" greets "$(shown 'docker run --rm')"
check "bpftrace on the node" greets "$(shown 'bpftrace -p $(docker')"

docker logs "$app" >"$work/out"
beside=$(shown 'docker run --rm' | sed '/ bpftrace /d' | tr -d '\\\n')
check "what hello prints: a command by process" greets "$beside timeout -s INT 20 $(sed -n 's/^  bpftrace -p/bpftrace -B line -p/p' "$work/out")"
check "what hello prints: a command by path" greets "$beside timeout -s INT 20 $(sed -n 's/^  bpftrace -e/bpftrace -B line -e/p' "$work/out")"
check "what hello prints: its number outside" grep -Fx "$(docker inspect --format '{{.State.Pid}}' "$app")" \
	<(bash -c "$(sed -n 's/^  pgrep -nx/pgrep -x/p' "$work/out")") # which is not the newest if others run

if debian_archive >/dev/null; then
	newest_tracers
	tar -C "$tree" --exclude=./lib/modules --exclude=./usr/src -c . | docker import - "$newest" >/dev/null
	check "the newest bpftrace beside it" greets "$(shown 'docker run --rm' | sed "s/ stapsdt-toolchain / --tmpfs \/tmp $newest /")"
fi

docker rm -f "$app" >/dev/null
check "a root file system that is read-only" bash -c "$(shown 'docker run -d' | sed "s/ -d / -d --read-only $(grep -o '\--tmpfs /probes[^ `]*' docs/containers.md | sed 's/[/&]/\\&/g') /")"
check "a root file system that is read-only: bpftrace beside it" greets "$(shown 'docker run --rm')"

echo
verdict

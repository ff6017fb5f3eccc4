#!/usr/bin/env bash
# Builds the images of the Dockerfile and runs the commands of docs/containers.md: with the images' bpftrace, with the
# newest one, and without privileges. The program of the latter is that of docs/without-root.md. The commands of
# docs/recording.md run on a container that is killed for its memory. It needs root.
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

need bpftrace=bpftrace curl=curl docker=docker.io /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
[ "$(id -u)" -eq 0 ] || { echo "This attaches tracers: run it as root." >&2; exit 2; }

app=docs$$ newest=newest$$ shop=shop$$ listening=listening$$ mounted=
volume=$(mktemp -d -p /dev/shm)
cleanup() {
	docker rm -f "$app" "$shop" "$listening" "$listening-2" >/dev/null 2>&1 || true
	docker rmi "$newest" "$shop" "$listening" >/dev/null 2>&1 || true
	rm -rf "$volume"
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
	check "docker build: the gate, as a user who may not attach" docker build --network host .
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
check "a root file system that is read-only" bash -c "$(shown 'docker run -d' | sed "s/ -d / -d --read-only --user 1000 $(grep -o '\--tmpfs /probes[^ `]*' docs/containers.md | sed 's/[/&]/\\&/g') /")"
check "a root file system that is read-only: bpftrace beside it" greets "$(shown 'docker run --rm')"

# recording BEGINNING: the commands of docs/recording.md's section on containers that begin so, for a container, a
# volume, and a port of this run.
port=$((20000 + $$ % 10000))
recording() {
	awk -v begin="    \$ $1" '/^## / { on = $0 == "## In a container" } on && index($0, begin) == 1' docs/recording.md |
		sed "s/^    . //;s/-t shop /-t $shop /;s/--name shop /--name $shop /
			s/ shop -record/ $shop -listen 127.0.0.1:$port -record/;s/ shop$/ $shop/;s/logs shop /logs $shop /
			s/localhost:8080/127.0.0.1:$port/;s/\/dev\/shm\/recordings/${volume//\//\\/}\/v/;s/\bpear\b/${work//\//\\/}\/pear/
			s/shop\.rec-[0-9TZ.]*/shop.rec-*/"
}
says() { timeout 60 bash -c "${2:?there is no such command}" | tee /dev/stderr | grep -Eq "$1"; }
serves() { curl -s -o "$work/none" "127.0.0.1:$port/items"; }
# killed STATUS: the container was started again, and tells why.
killed() { says "$1" "$(recording 'docker inspect')"; }

go build -C cmd/stapsdt -o "$work/stapsdt" .
PATH=$work:$PATH

# unprivileged N: the Nth command of docs/containers.md's section on that, for an image, containers and a directory of this run.
unprivileged() {
	awk -v n="$1" '/^## / { on = $0 == "## Without privileges" } on && /^    \$ / && --n == 0' docs/containers.md |
		sed "s/^    . docker run/docker run --network none/;s/--name shop/--name $listening/;s/container:shop/container:$listening/;s/ shop$/ $listening \/shop/
			s/ registry\.example\.com\/stapsdt:[^ ]* / $listening \/stapsdt /
			s/ run --network none -d --user / run --network none -d --name $listening-2 --user /;s/\/run\/shop/${volume//\//\\/}\/run/g"
}
mkdir -p "$work/module" "$work/image/tmp"
chmod 1777 "$work/image/tmp"
awk '/^```go$/ { on = 1; next } /^```$/ { on = 0 } on' docs/without-root.md >"$work/module/main.go"
check "an image of a program that listens" bash -o pipefail -ec "
	export CGO_ENABLED=0
	go build -C cmd/stapsdt -o $work/image .
	export GOWORK=off GOFLAGS=-mod=mod
	cd $work/module
	go mod init shop
	go mod edit -require github.com/go-stapsdt/stapsdt@v0.0.0 -replace github.com/go-stapsdt/stapsdt=$PWD
	go build -o $work/image .
	tar -C $work/image -c . | docker import - $listening"
check "docker run a program that listens" says '^[0-9a-f]{64}$' "$(unprivileged 1)"
check "the command in its PID namespace" eventually says 'shop:request__done .*status=200' "$(unprivileged 2)"
install -d -o 1000 "$volume/run"
check "docker run a program that listens in a volume" says '^[0-9a-f]{64}$' "$(unprivileged 3)"
check "the command with this volume" eventually says 'shop:request__done .*status=200' "$(unprivileged 4)"

check "an image of the shop" bash -ec "$(recording image; recording CGO_ENABLED; recording printf)"
check "docker run shop" bash -ec "$(recording mkdir; recording 'docker run')"
check "the shop serves" eventually serves
check "a request that takes its memory" bash -c "$(recording head; recording for; recording curl); true"
check "it was killed and started again" eventually killed '^[1-9][0-9]* (true|false)$'
check "it keeps the recording of its last life" eventually says 'recording of the last run is kept' "$(recording 'docker logs')"
check "what it was doing" says '"/items" +"POST"' "$(recording 'stapsdt latency')"

docker rm -f "$shop" >/dev/null
rm -rf "${volume:?}"/*
check "a volume to which all may write, as in Kubernetes" bash -ec "mkdir -m 777 $volume/v && chmod 777 $volume $volume/v &&
	$(recording 'docker run' | sed "s/ -d / -d --user 1000 --tmpfs \/data:mode=1777 /;s/ -record / -db \/data\/shop.db -record /;s/recordings\/shop.rec/recordings\/shop\/shop.rec/")"
check "a volume to which all may write: it records" eventually test -s "$volume/v/shop/shop.rec"

echo
verdict

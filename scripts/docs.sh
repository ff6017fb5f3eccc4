#!/usr/bin/env bash
# Runs what README.md and the examples tell a reader to run, and looks at what is
# printed. What attaches tracers wants root.
#
#   docs.sh [--docker]     with the images of the Dockerfile too
#
# The last line says how many passed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

need gcc=gcc make=make pkg-config=pkg-config bpftrace=bpftrace python3=python3 /usr/include/libelf.h=libelf-dev
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "This attaches tracers: run it as root." >&2; exit 2; }

root=$PWD work=$(mktemp -d)
passed=0 failed=0 background=()
finish() {
	for job in ${background[@]+"${background[@]}"}; do kill "$job" 2>/dev/null || true; done
	rm -rf "$work"
}
trap finish EXIT

# check NAME COMMAND...: it succeeds; what it printed is shown when it does not.
check() {
	local name=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		echo "ok $name"
		passed=$((passed + 1))
	else
		sed 's/^/# /' "$work/log"
		echo "not ok $name"
		failed=$((failed + 1))
	fi
}

# start COMMAND...: in the background; its process is $pid.
start() {
	"$@" >"$work/out" 2>&1 &
	pid=$!
	background+=("$pid")
	for _ in $(seq 100); do
		[ ! -s "$work/out" ] || return 0
		sleep 0.1
	done
}

# sees PATTERN COMMAND...: the tracer prints a line that matches within $patience
# seconds, or when it is interrupted then.
patience=20
sees() {
	local pattern=$1 tracer
	shift
	"$@" >"$work/seen" 2>&1 &
	tracer=$!
	for _ in $(seq $((patience * 10))); do
		! grep -Eq "$pattern" "$work/seen" || break
		sleep 0.1
	done
	kill -INT $tracer 2>/dev/null || true
	wait $tracer || true
	grep -E "$pattern" "$work/seen" || { cat "$work/seen"; return 1; }
}

# exits STATUS COMMAND...
exits() {
	local want=$1 status=0
	shift
	"$@" || status=$?
	[ $status -eq "$want" ]
}

# A program of README's first lines, in a module of its own.
newcomer() {
	mkdir -p "$work/myapp"
	{
		printf 'package main\n\nimport (\n\t"log"\n\t"net/http"\n\t"time"\n\n\t"github.com/go-stapsdt/stapsdt"\n)\n\n'
		sed -n '/^```go$/,/^```$/p' README.md | sed '1d;$d' | sed 's|// \.\.\.|for r, _ := http.NewRequest("GET", "/index.html", nil); ; time.Sleep(50 * time.Millisecond) {|; s|^\trequest\.Fire.*|&\n\t}|'
	} >"$work/myapp/main.go"
	(
		cd "$work/myapp"
		rm -f go.mod go.sum
		go mod init myapp
		go mod edit -replace "github.com/go-stapsdt/stapsdt=$root"
		go mod tidy
		CGO_ENABLED=$1 go build -o "myapp$1" .
	)
}

for cgo in 1 0; do
	check "README: the first program, CGO_ENABLED=$cgo" newcomer $cgo
	"$work/myapp/myapp$cgo" &
	pid=$!
	background+=($pid)
	sleep 0.5
	check "README: bpftrace -p" sees '^/index.html 200$' \
		bpftrace -B line -p $pid -e "$(sed -n "s/^# bpftrace -p .* -e '\(.*\)'$/\1/p" README.md)"
	file=$(sed -n 's/.* \(\/.*\/myapp-[0-9a-f]*\.so\)$/\1/p' /proc/$pid/maps | head -n 1)
	check "README: bpftrace of every process" sees '^/index.html 200$' \
		bpftrace -B line -e "usdt:$file:myapp:request__done { printf(\"%s %d\n\", str(arg0), arg1); }"
	check "attach.sh: it fires" scripts/attach.sh $pid myapp:request__done
	check "attach.sh: without the provider" scripts/attach.sh $pid request__done
	check "attach.sh: no such probe" exits 7 scripts/attach.sh $pid myapp:other
	kill $pid
done

check "attach.sh: no such process" exits 3 scripts/attach.sh 4194304 myapp:other
check "attach.sh: no probes" exits 6 scripts/attach.sh $$ myapp:other
check "attach.sh: usage" exits 2 scripts/attach.sh
go build -o "$work/hello" ./examples/hello
start env STAPSDT_DIR=/nowhere/at XDG_RUNTIME_DIR= TMPDIR=/nowhere/all "$work/hello"
check "attach.sh: in memory" scripts/attach.sh $pid hello:greeting
check "attach.sh: stopped, it does not fire" exits 1 sh -c "kill -STOP $pid; scripts/attach.sh $pid hello:greeting 2"

go build -o "$work/translator" ./examples/translator
start "$work/translator"
check "examples/translator" sees '^[A-Z]+ /[^ ]* [0-9]+ [0-9]+ ms$' bpftrace -B line -p $pid examples/translator/requests.bt

check "make -C cstapsdt install" make -C cstapsdt install DESTDIR="$work/installed"
check "examples/c: make" make -C examples/c
yes hello | examples/c/lines >/dev/null &
background+=($!)
sleep 0.5
pid=$(pgrep -nx lines)
patience=3 check "examples/c: lengths.bt" sees '^\[4, 8\)' bpftrace -B line -p "$pid" examples/c/lengths.bt
kill "$pid"
start env LD_LIBRARY_PATH=cstapsdt/out python3 examples/python/tasks.py
check "examples/python" sees '^task [0-9]+ [0-9]+ us$' bpftrace -B line -p $pid \
	-e "$(sed -n "s/.* -e '\(usdt.*\)'$/\1/p" examples/python/tasks.py | sed 's/\\\\n/\\n/')"

if [ "${1:-}" = --docker ]; then
	check "docker build, toolchain" docker build --network host --target toolchain -t stapsdt .
	check "docker build, hello" docker build --network host --target hello -t hello .
	docker run -d --rm --name "docs$$" --network none hello >/dev/null
	check "docker run, bpftrace beside it" sees '^hello, tracer [0-9]+ [0-9]+$' \
		docker run --rm --network none --pid "container:docs$$" --cap-add SYS_ADMIN --cap-add SYS_PTRACE stapsdt \
		timeout -s INT 10 bpftrace -B line -p 1 -e "$(sed -n "s/^ *bpftrace -p 1 -e '\(.*\)'$/\1/p" README.md)"
	docker kill "docs$$" >/dev/null
fi

echo
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

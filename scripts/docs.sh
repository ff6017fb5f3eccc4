#!/usr/bin/env bash
# Runs what README.md and the examples tell a reader to run, and looks at what is
# printed. What attaches tracers wants root.
#
#   docs.sh [--docker | --all]
#
#   --docker   with the images of the Dockerfile too
#   --all      and with the other scripts that README.md names, which take minutes
#
# The last line says how many passed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh
. scripts/check.sh

need gcc=gcc make=make pkg-config=pkg-config bpftrace=bpftrace python3=python3 curl=curl setsid=util-linux setpriv=util-linux \
	/usr/include/libelf.h=libelf-dev
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "This attaches tracers: run it as root." >&2; exit 2; }

root=$PWD work=$(mktemp -d)
background=()
finish() {
	for job in ${background[@]+"${background[@]}"}; do kill -- "$job" 2>/dev/null || true; done
	rm -rf "$work"
}
trap finish EXIT

# eventually COMMAND...: it succeeds within $patience seconds.
patience=20
eventually() {
	for _ in $(seq $((patience * 10))); do
		! "$@" || return 0
		sleep 0.1
	done
	return 1
}

# start COMMAND...: in the background; its process is $pid.
start() {
	: >"$work/out" # not what the one before has printed
	"$@" >"$work/out" 2>&1 &
	pid=$!
	background+=("$pid")
	eventually test -s "$work/out" || true
}

# sees PATTERN COMMAND...: the tracer prints a line that matches within $patience
# seconds, or when it is interrupted then.
sees() {
	local pattern=$1 tracer
	shift
	: >"$work/seen"
	"$@" >"$work/seen" 2>&1 &
	tracer=$!
	eventually grep -Eq "$pattern" "$work/seen" || true
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

# may_do_without COMMAND: it takes the right that it has not got, or not, by versions.
may_do_without() { exits 0 "$@" || exits 4 "$@"; }

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
	background+=("$pid")
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
check "attach.sh: a name with a space" exits 2 scripts/attach.sh $$ 'my app:other'
check "attach.sh: may not attach" exits 4 setpriv --bounding-set -sys_admin,-bpf scripts/attach.sh $$ myapp:other
mkdir "$work/broken"
printf '#!/bin/sh\nexit 127\n' >"$work/broken/bpftrace"
chmod +x "$work/broken/bpftrace"
check "attach.sh: bpftrace is broken" exits 8 env PATH="$work/broken:$PATH" scripts/attach.sh $$ myapp:other
go build -o "$work/hello" ./examples/hello
start env STAPSDT_DIR=/nowhere/at XDG_RUNTIME_DIR= TMPDIR=/nowhere/all "$work/hello"
check "attach.sh: in memory" scripts/attach.sh $pid hello:greeting
check "attach.sh: not CAP_SYS_ADMIN" may_do_without setpriv --bounding-set -sys_admin scripts/attach.sh $pid hello:greeting
check "attach.sh: may not look" exits 4 setpriv --bounding-set -sys_ptrace scripts/attach.sh $pid hello:greeting
check "attach.sh: stopped, it does not fire" exits 1 sh -c "kill -STOP $pid; scripts/attach.sh $pid hello:greeting 2"
kill -CONT $pid # or it would not end with the others
start sh -c 'true & echo $!; exec sleep 60' # which does not wait for it
check "attach.sh: ended" exits 3 scripts/attach.sh "$(cat "$work/out")" hello:greeting

go build -o "$work/translator" ./examples/translator
start "$work/translator"
check "examples/translator" sees '^[A-Z]+ /[^ ]* [0-9]+ [0-9]+ ms$' bpftrace -B line -p $pid examples/translator/requests.bt

check "make -C cstapsdt install" make -C cstapsdt install DESTDIR="$work/installed"
check "examples/c: make" make -C examples/c
yes hello | examples/c/lines >/dev/null &
background+=("$!")
sleep 0.5
pid=$(pgrep -nx lines)
patience=3 check "examples/c: lengths.bt" sees '^\[4, 8\)' bpftrace -B line -p "$pid" examples/c/lengths.bt
kill "$pid"
start env LD_LIBRARY_PATH=cstapsdt/out python3 examples/python/tasks.py
check "examples/python" sees '^task [0-9]+ [0-9]+ us$' bpftrace -B line -p $pid \
	-e "$(sed -n "s/.* -e '\(usdt.*\)'$/\1/p" examples/python/tasks.py | sed 's/\\\\n/\\n/')"

# The three modules' READMEs are followed in copies, because that leaves files
# behind.

# readme BEGINNING: the commands of README.md that begin so, without comments, and
# with the process for PID.
readme() { sed -n "s,^    \($1\),\1,p" README.md | sed "s/  *# .*//;s/PID/$pid/g"; }

# copy MODULE: it builds, with no time limit, so that go run begins soon.
copy() {
	cp -r "$root/examples/$1" "$work/$1"
	cd "$work/$1"
	mkfifo commands
	go mod edit -replace "github.com/go-stapsdt/stapsdt=$root"
	check "examples/$1: it builds" go build -o /dev/null .
	exec 3<>commands
	pid=
}

# begin COMMAND: as start does; the program hears what is written to 3, and says its
# number.
begin() {
	start bash -c "exec $1 <commands"
	pid=$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$work/out")
	background+=(${pid:+"$pid"})
}

end() { kill "$pid" 2>/dev/null || true; }

# follow PATTERN COMMAND: a tracer begins, as in one more terminal. What it has printed
# in the end is to have a line that matches.
tracers=() commands=() patterns=()
follow() {
	local out=$work/tracer${#tracers[@]}
	: >"$out"
	# What is piped into something else is seen in $out at once.
	out=$out setsid "$root/internal/tracetest/testdata/tracefs.sh" bash -c \
		'bpftrace() { __BPFTRACE_NOTIFY_PROBES_ATTACHED=1 command bpftrace -B line "$@" 2>&1 | tee "$out"; }'"
		$2" >"$out.shown" 2>&1 &
	tracers+=($!) commands+=("${2//"$pid"/PID}") patterns+=("$1")
	background+=("-$!")
}

gone() { ! kill -0 "$1" 2>/dev/null; }
notified() { grep -q '^__BPFTRACE_NOTIFY_PROBES_ATTACHED$' "$work/tracer$1"; }
settled() { notified "$1" || gone "${tracers[$1]}"; }

# attached: all of them are.
attached() {
	local i status=0
	for i in "${!tracers[@]}"; do
		eventually settled "$i" && notified "$i" && continue
		cat "$work/tracer$i.shown"
		status=1
	done
	return $status
}

# shown NUMBER: that tracer, which has been interrupted, shows what it should. 0.17 may
# have to be told twice.
shown() {
	local patience
	for patience in 1 2 4 8; do
		! eventually gone "${tracers[$1]}" || break
		kill -INT -- "-${tracers[$1]}" 2>/dev/null || true
	done
	grep -E "${patterns[$1]}" "$work/tracer$1.shown" || { cat "$work/tracer$1.shown"; return 1; }
}

# leave MODULE: all tracers are interrupted.
leave() {
	local i
	for i in "${tracers[@]}"; do kill -INT -- "-$i" 2>/dev/null || true; done
	for i in "${!tracers[@]}"; do check "examples/$1: ${commands[$i]##*$'\n'}" shown "$i"; done
	tracers=() commands=() patterns=()
}

# tell ANSWER COMMAND: to the program, which answers with a line that matches.
tell() {
	echo "$2" >&3
	eventually grep -Eq "$1" "$work/out" || { cat "$work/out"; return 1; }
}

# flow: that of the first tracer begins as README.md has it, but for the time.
flow() {
	local line='[0-9]* \([0-9]* [0-9]* \(->\|<-\) .*)\)$'
	sed -n "s/^    $line/\1/p" README.md >"$work/wanted"
	sed -n "/ ready /d;s/^$line/\1/p" "$work/tracer0.shown" | head -n "$(wc -l <"$work/wanted")" >"$work/flow"
	[ -s "$work/wanted" ] && diff "$work/wanted" "$work/flow"
}

# Later versions keep the kernel's events to less than the process with -p.
follow_kernel() {
	case $(bpftrace --version) in *' v0.'[0-9].* | *' v0.1'[0-7].*) follow "$@" ;; esac
}

copy http
check "examples/http: go build" bash -c "$(readme 'go build')"
begin "$(readme './shop' | sed 's/:8080/:0/')"
address=$(sed -n 's|.* serves http://||p' "$work/out")
follow '^@requests\[POST, /items, 200\]: 1$' "$(readme 'bpftrace .*/latency')"
follow '^[0-9]+ us, 1 rows, /report: WITH RECURSIVE ' "$(readme 'bpftrace .*/slow')"
follow '^@since\[[0-9]+, GET, /supplier\]: [0-9]+$' "$(readme 'bpftrace .*/inflight')"
follow_kernel '^@by_request\[[0-9]+, /supplier\]: [0-9]{7}$' "$(readme 'bpftrace -p .*/offcpu')"
follow '^@by_stack\[/supplier, time.Sleep, main.waitForSupplier, .*\]: [0-9]{7}$' "$(readme 'file=\|bpftrace -e')"
check "examples/http: tracers" attached
check "examples/http: curl" bash -ec "$(readme curl | sed "s/localhost:8080/$address/;s/^curl/& -fsS/")"
leave http
end

copy lua
for cgo in 1 0; do
	check "examples/lua: go build, CGO_ENABLED=$cgo" env CGO_ENABLED=$cgo bash -c "$(readme 'go build')"
	echo idle >&3 # it prints nothing else of its own accord
	start bash -c "exec $(readme './lua') <commands"
	if [ $cgo = 1 ]; then
		follow ' 1 <- flow \(testdata/work.lua:0\)$' "$(readme 'bpftrace .*/flow')"
		follow '^@calls\[outer\]: 1$' "$(readme 'bpftrace .*/time')"
		follow_kernel '^@samples\[spin, outer, time\]: [0-9]+$' "$(readme 'bpftrace -p .*/hot')"
		follow '^@samples\[spin, outer, time\]: [0-9]+$' "$(readme 'file=\|bpftrace -e')"
		follow_kernel '^@faults\[fill\]: [0-9]{3,}$' "$(readme 'bpftrace .*/faults')"
		follow '^@waited\[critical\]: [0-9]{5,}$' "$(readme 'bpftrace .*/locks')"
		follow '^@bytes\[allocate\]: 10485760$' "$(readme 'bpftrace .*/malloc')"
		follow '^@lines\[testdata/work.lua, [0-9]+\]: [0-9]+$' "$(readme 'bpftrace .*/lines')"
	else
		follow '^@bytes\[allocate\]: 1[0-9]{7}$' "$(readme 'bpftrace .*/mmap')"
	fi
	check "examples/lua: tracers" attached
	for command in ready flow memory lock time; do
		check "examples/lua: $command" tell "^done $command$" $command
	done
	leave lua
	[ $cgo = 0 ] || check "examples/lua: the flow" flow
	end
done

check "examples/lua: go test -bench" bash -ec "$(readme 'go test .*bench') -benchtime 10x"

copy wasm
check "examples/wasm: go test -bench" bash -ec "$(readme 'go test .*bench') -benchtime 10x"
begin "$(readme 'go run')"
file=$(sed -n 's/.* has its probes in //p' "$work/out")
follow ' 1 <- divide \(guest, function 3\)$' "$(readme 'bpftrace .*/flow')"
follow '^@calls\[fib\]: 3$' "$(readme 'bpftrace .*/time')"
follow '^@\[fib\]: 6$' "$(readme 'bpftrace -e' | sed "s|FILE|$file|")"
check "examples/wasm: tracers" attached
check "examples/wasm: fib 2" tell '^= \[1\]$' 'fib 2'
check "examples/wasm: divide 1 0" tell 'integer divide by zero' 'divide 1 0'
check "examples/wasm: without -trace" bash -c "echo fib 2 | $(readme 'go run' | sed 's/ -trace$//') | grep -Fx '= [1]'"
leave wasm
check "examples/wasm: the flow" flow
end
cd "$root"

if [ "${1:-}" = --all ]; then
	check "scripts/bench.sh" scripts/bench.sh --quick
	check "scripts/tracers.sh" scripts/tracers.sh
	check "scripts/kernels.sh" scripts/kernels.sh
	check "scripts/soak.sh" scripts/soak.sh
fi
if [ "${1:-}" = --docker ] || [ "${1:-}" = --all ]; then
	check "docker build, toolchain" docker build --network host --target toolchain -t stapsdt .
	check "docker build, hello" docker build --network host --target hello -t hello .
	docker run -d --rm --name "docs$$" --network none hello >/dev/null
	check "docker run, bpftrace beside it" sees '^hello, tracer [0-9]+ [0-9]+$' \
		docker run --rm --network none --pid "container:docs$$" --cap-add SYS_ADMIN --cap-add SYS_PTRACE stapsdt \
		timeout -s INT 10 bpftrace -B line -p 1 -e "$(sed -n "s/^ *bpftrace -p 1 -e '\(.*\)'$/\1/p" README.md)"
	docker kill "docs$$" >/dev/null
fi

echo
verdict

#!/usr/bin/env bash
# Builds examples/hello, attaches bpftrace to it, and shows the greetings that bpftrace
# decoded. It succeeds if there were at least three with the right values.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/install.sh

need gcc=gcc bpftrace=bpftrace /usr/include/libelf.h=libelf-dev
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

work=$(mktemp -d)
pid=
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT

go build -o "$work/hello" ./examples/hello
: >"$work/out" # which is read before the program may have begun
"$work/hello" >"$work/out" &
pid=$!
until grep -q bpftrace "$work/out"; do
	kill -0 "$pid" # it has not ended
	sleep 0.05
done

program='usdt:*:hello:greeting { printf("%s %d\n", str(arg0), arg1); if (++@n == 5) { clear(@n); exit(); } }'
echo "\$ bpftrace -p $pid -e '$program'"
timeout 180 $sudo bpftrace -B line -p "$pid" -e "$program" 2>"$work/err" | tee "$work/seen" || true

# "hello, tracer 7 7": the number in the text and the one beside it are equal.
good=$(awk '/^hello, tracer [0-9]+ [0-9]+$/ && $3 == $4 && (NR == 1 || $4 == last + 1) { n++ } { last = $4 } END { print n + 0 }' <(grep '^hello' "$work/seen"))
bad=$(grep -c '^hello' "$work/seen" || true)
if [ "$good" -lt 3 ] || [ "$good" -ne "$bad" ]; then
	echo "bpftrace printed $bad greetings, of which $good were right" >&2
	cat "$work/err" >&2
	exit 1
fi
echo "bpftrace printed $good greetings, all of them right"

#!/usr/bin/env bash
# Proves that a probe of a running process fires: for a program's own CI.
#
#   attach.sh PID [PROVIDER:]PROBE [SECONDS]
#
# Attaches bpftrace, waits until the probe has fired, 10 seconds or as many as are
# given, and succeeds. Otherwise one line says why not, and so does the status:
#
#   1  attached, but it did not fire      5  bpftrace is not installed
#   2  wrong usage                        6  the process has no probes: is the provider loaded?
#   3  no such process                    7  it has probes, but not this one
#   4  not allowed: root is needed        8  bpftrace could not attach
set -euo pipefail

fail() {
	echo "attach.sh: $2" >&2
	exit "$1"
}

[ $# -ge 2 ] && [ $# -le 3 ] || fail 2 "usage: attach.sh PID [PROVIDER:]PROBE [SECONDS]"
pid=$1 probe=$2 seconds=${3:-10}
for number in "$pid" "$seconds"; do
	case $number in "" | 0* | *[!0-9]*) fail 2 "PID and SECONDS are numbers" ;; esac
done
case $probe in *:*) ;; *) probe="*:$probe" ;; esac

[ -d "/proc/$pid" ] || fail 3 "no process $pid"
[ "$(id -u)" -eq 0 ] || fail 4 "not root: try sudo"
command -v bpftrace >/dev/null || fail 5 "no bpftrace: install it (apt-get install bpftrace)"

# list PATTERN: the probes of the process that match, a line each.
list() {
	timeout -k 5 60 bpftrace -p "$pid" -l "$1" 2>/dev/null | grep '^usdt:' || true
}

# in_memory: the images that the process keeps in a memfd, which newer versions of
# bpftrace do not find by the process.
in_memory() {
	local fd
	for fd in "/proc/$pid/fd"/*; do
		case $(readlink "$fd") in "/memfd:"*) echo "$fd" ;; esac
	done
}

where="*" flags=(-p "$pid")
if [ -z "$(list "usdt:*:$probe")" ]; then
	for fd in $(in_memory); do
		[ -z "$(list "usdt:$fd:$probe")" ] || { where=$fd flags=(); }
	done
	if [ "$where" = "*" ]; then
		others=$(list "usdt:*" | sed 's/^usdt:.*:\([^:]*:[^:]*\)$/\1/' | sort -u)
		for fd in $(in_memory); do
			others+=$(list "usdt:$fd:*" | sed 's/^usdt:.*:\([^:]*:[^:]*\)$/ \1/')
		done
		[ -n "$others" ] || fail 6 "process $pid has no probes: is the provider loaded?"
		fail 7 "process $pid has no probe ${probe#\*:}, but $(echo $others)"
	fi
fi

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
status=0
seen=$(timeout -k 5 -s INT "$seconds" bpftrace -B line ${flags[@]+"${flags[@]}"} \
	-e "usdt:$where:$probe { printf(\"%s fired\n\", probe); exit(); }" 2>"$errors") || status=$?
case $seen in
*" fired"*) echo "${probe#\*:} fired" ;;
*)
	if [ $status -eq 0 ] || [ $status -eq 124 ]; then
		[ -d "/proc/$pid" ] || fail 3 "process $pid ended"
		fail 1 "${probe#\*:} did not fire in $seconds s"
	fi
	cat "$errors" >&2
	fail 8 "bpftrace could not attach"
	;;
esac

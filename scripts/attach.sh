#!/usr/bin/env bash
# Proves that a probe of a running process fires: for a program's own CI.
#
#   attach.sh PID [PROVIDER:]PROBE [SECONDS]
#
# Attaches bpftrace, waits from then on until the probe has fired, 10 seconds or as
# many as are given, and succeeds. Otherwise one line says why not, and so does the
# status:
#
#   1  attached, but it did not fire      5  bpftrace is not installed
#   2  wrong usage                        6  the process has no probes: is the provider loaded?
#   3  no such process                    7  it has probes, but not this one
#   4  not allowed: what right is needed  8  bpftrace could not attach
set -euo pipefail

fail() {
	echo "attach.sh: $2" >&2
	exit "$1"
}

# broken REASON shows what bpftrace said.
broken() {
	cat "$errors" >&2
	fail 8 "$1"
}

# has_capability NUMBER: of linux/capability.h.
has_capability() {
	local all
	all=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
	[ $((16#$all >> $1 & 1)) -eq 1 ]
}

# ended: it is gone, or nobody has waited for it yet.
ended() {
	case $(sed 's/.*) //;s/ .*//' "/proc/$pid/stat" 2>/dev/null) in "" | [ZX]*) return 0 ;; esac
	return 1
}

# may_look: bpftrace finds the probes in the process's map, and reads the files through
# its root.
may_look() { cat "/proc/$pid/maps" >/dev/null 2>&1 && [ -d "/proc/$pid/root/" ]; }

[ $# -ge 2 ] && [ $# -le 3 ] || fail 2 "usage: attach.sh PID [PROVIDER:]PROBE [SECONDS]"
pid=$1 probe=$2 seconds=${3:-10}
for number in "$pid" "$seconds"; do
	case $number in "" | 0* | *[!0-9]*) fail 2 "PID and SECONDS are numbers" ;; esac
done
case $probe in
*[[:space:]]*) fail 2 "no probe has a space in its name" ;;
*:*) ;;
*) probe="*:$probe" ;;
esac

[ -d "/proc/$pid" ] || fail 3 "no process $pid"
! ended || fail 3 "process $pid ended"
[ "$(id -u)" -eq 0 ] || fail 4 "not root: try sudo"
has_capability 21 || { has_capability 38 && has_capability 39; } ||
	fail 4 "no CAP_SYS_ADMIN (or CAP_PERFMON and CAP_BPF), which attaching takes"
may_look || ended || fail 4 "process $pid may not be looked at: that takes CAP_SYS_PTRACE"
command -v bpftrace >/dev/null || fail 5 "no bpftrace: install it (apt-get install bpftrace)"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
bpftrace --version >/dev/null 2>"$errors" || broken "bpftrace does not run"

# list PATTERN: the probes of the process that match, a line each.
list() {
	timeout -k 5 60 bpftrace -p "$pid" -l "$1" 2>/dev/null | grep '^usdt:' || true
}

# mapped lists only the files that the process has mapped: newer versions of bpftrace
# look into the programs of $PATH too.
mapped() {
	awk -v root="^/proc/$pid/root" '
		FNR == NR { if (match($0, /\/.*/)) maps[substr($0, RSTART)]; next }
		{ path = $0; sub(/^usdt:/, "", path); sub(/:[^:]*:[^:]*$/, "", path); sub(root, "", path) }
		path in maps
	' "/proc/$pid/maps" - 2>/dev/null || true
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
if [ -z "$(list "usdt:*:$probe" | mapped)" ]; then
	for fd in $(in_memory); do
		[ -z "$(list "usdt:$fd:$probe")" ] || { where=$fd flags=(); }
	done
	if [ "$where" = "*" ]; then
		others=$(list "usdt:*" | mapped | sed 's/^usdt:.*:\([^:]*:[^:]*\)$/\1/' | sort -u)
		for fd in $(in_memory); do
			others+=$(list "usdt:$fd:*" | sed 's/^usdt:.*:\([^:]*:[^:]*\)$/ \1/')
		done
		! ended || fail 3 "process $pid ended"
		[ -n "$others" ] || fail 6 "process $pid has no probes: is the provider loaded?"
		fail 7 "process $pid has no probe ${probe#\*:}, but $(echo $others)"
	fi
fi

# bpftrace counts the seconds, so that those that it takes to attach are none of them.
seen=$(timeout -k 5 -s INT $((seconds + 60)) bpftrace -B line ${flags[@]+"${flags[@]}"} \
	-e "usdt:$where:$probe { printf(\"%s fired\n\", probe); exit(); }
	    interval:s:$seconds { printf(\"silent\n\"); exit(); }" 2>"$errors") || true
case $seen in
*" fired"*) echo "${probe#\*:} fired" ;;
*)
	! ended || fail 3 "process $pid ended"
	case $seen in *silent*) fail 1 "${probe#\*:} did not fire in $seconds s" ;; esac
	has_capability 21 || { cat "$errors" >&2; fail 4 "this kernel or bpftrace takes CAP_SYS_ADMIN"; }
	broken "bpftrace could not attach"
	;;
esac

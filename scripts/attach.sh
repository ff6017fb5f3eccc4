#!/usr/bin/env bash
# Proves that a probe of a running process fires. It is meant for a program's own CI.
#
#   attach.sh PID [PROVIDER:]PROBE [SECONDS]
#
# Attaches bpftrace, then waits up to SECONDS (10 by default) for the probe to fire, and
# succeeds if it does. Otherwise it prints one line that says why not, and exits with one
# of these statuses:
#
#   1  bpftrace attached, but the probe did not fire
#   2  the usage is wrong
#   3  the process does not exist
#   4  a right is missing, which the line names
#   5  bpftrace is not installed
#   6  the process has no probes: is the provider loaded?
#   7  the process has probes, but not this one
#   8  bpftrace does not run or attach; the line quotes it
set -euo pipefail

fail() {
	echo "attach.sh: $2" >&2
	exit "$1"
}

# broken REASON quotes bpftrace, which has just failed: the last line of its output that is
# neither a warning nor about a limit that newer kernels do not have.
broken() {
	local status=$? said
	said=$(grep -v -e '^[[:space:]~^]*$' -e '^WARNING' -e RLIMIT_MEMLOCK "$errors" | tail -n 1 | sed 's/^ERROR: //') || true
	said=${said:-it printed nothing and exited with status $status}
	has_capability 21 || fail 4 "this kernel or bpftrace needs CAP_SYS_ADMIN: $said"
	case $said in */sys/kernel/tracing/*"No such file"*) said+=": run mount -t tracefs tracefs /sys/kernel/tracing" ;; esac
	fail 8 "$1: $said"
}

# has_capability NUMBER: whether this process has the capability of linux/capability.h.
has_capability() {
	local all
	all=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
	[ $((16#$all >> $1 & 1)) -eq 1 ]
}

# ended: whether the process is gone, or is a zombie.
ended() {
	case $(sed 's/.*) //;s/ .*//' "/proc/$pid/stat" 2>/dev/null) in "" | [ZX]*) return 0 ;; esac
	return 1
}

# may_look: whether bpftrace may read the process's map, where it finds the probes, and its
# root, through which it reads the files.
may_look() { cat "/proc/$pid/maps" >/dev/null 2>&1 && [ -d "/proc/$pid/root/" ]; }

[ $# -ge 2 ] && [ $# -le 3 ] || fail 2 "usage: attach.sh PID [PROVIDER:]PROBE [SECONDS]"
pid=$1 probe=$2 seconds=${3:-10}
for number in "$pid" "$seconds"; do
	case $number in "" | 0* | *[!0-9]*) fail 2 "PID and SECONDS must be positive numbers" ;; esac
done
case $probe in
*[[:space:]]*) fail 2 "the name of a probe cannot contain a space" ;;
*:*) ;;
*) probe="*:$probe" ;;
esac

[ -d "/proc/$pid" ] || fail 3 "process $pid does not exist"
! ended || fail 3 "process $pid has ended"
[ "$(id -u)" -eq 0 ] || fail 4 "attaching needs root: try sudo"
has_capability 21 || { has_capability 38 && has_capability 39; } ||
	fail 4 "attaching needs CAP_SYS_ADMIN (or CAP_PERFMON and CAP_BPF)"
may_look || ended || fail 4 "looking at process $pid needs CAP_SYS_PTRACE"
command -v bpftrace >/dev/null || fail 5 "bpftrace is not installed: run apt-get install bpftrace"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
# bpftrace 0.25 and later do nothing at all without tracefs.
timeout -k 5 60 bpftrace -e 'interval:ms:1 { exit(); }' >/dev/null 2>"$errors" || broken "bpftrace does not run here"

# list PATTERN [OPTION...]: the probes that match, one per line.
list() {
	local pattern=$1
	shift
	timeout -k 5 60 bpftrace "$@" -l "$pattern" 2>/dev/null | grep '^usdt:' || true
}

# mapped keeps only the probes in files that the process has mapped: newer versions of
# bpftrace also search the programs in $PATH.
mapped() {
	awk -v root="^/proc/$pid/root" '
		FNR == NR { if (match($0, /\/.*/)) maps[substr($0, RSTART)]; next }
		{ path = $0; sub(/^usdt:/, "", path); sub(/:[^:]*:[^:]*$/, "", path); sub(root, "", path) }
		path in maps
	' "/proc/$pid/maps" - 2>/dev/null || true
}

# names: the probes without their files, on one line.
names() { sed 's/^usdt:.*:\([^:]*:[^:]*\)$/\1/' | sort -u | tr '\n' ' '; }

# descriptors INODE: the process's descriptors for a file in memory.
descriptors() {
	local fd
	for fd in "/proc/$pid/fd"/*; do
		[ "$(stat -Lc %i "$fd" 2>/dev/null)" != "$1" ] || echo "$fd"
	done
}

# find_images sets images to the files that the process has mapped as code and that may
# have probes, as paths that can be opened here. It sets closed to those that cannot be
# opened. map_files opens all files, including deleted files and those of another mount
# namespace, but needs a right of its own. Most files can be opened without it.
find_images() {
	local range flags offset device inode path way status
	local -A known=()
	images=() closed=()
	while read -r range flags offset device inode path; do
		case $flags$path in ??x?/*) ;; *) continue ;; esac
		[ -z "${known[$device:$inode]:-}" ] || continue
		known[$device:$inode]=$offset
		range=$(printf '%x-%x' "0x${range%-*}" "0x${range#*-}")
		for way in "/proc/$pid/map_files/$range" "/proc/$pid/root$path" $(descriptors "$inode") ""; do
			[ -n "$way" ] || { closed+=("$path"); break; }
			status=0
			grep -aqs stapsdt "$way" || status=$?
			[ $status -ne 0 ] || images+=("$way")
			[ $status -gt 1 ] || break
		done
	done < <(cat "/proc/$pid/maps" 2>/dev/null)
}

# bpftrace's own search by the process attaches to no other process, even if processes share
# the file. A file that it cannot find is used by this process alone, except after a fork or
# if a shared file was deleted. A filter by PID then separates the events, which works only
# in the kernel's initial PID namespace.
where="*" flags=(-p "$pid") filter=
if [ -z "$(list "usdt:*:$probe" -p "$pid" | mapped)" ]; then
	find_images
	for image in ${images[@]+"${images[@]}"}; do
		[ -z "$(list "usdt:$image:$probe")" ] || { where=$image flags=(); }
	done
	[ "$(readlink /proc/self/ns/pid)" != "pid:[4026531836]" ] || filter="/pid == $pid/"
	if [ "$where" = "*" ]; then
		others=$(for image in ${images[@]+"${images[@]}"}; do list "usdt:$image:*"; done | names)
		! ended || fail 3 "process $pid has ended"
		[ ${#closed[@]} -eq 0 ] || fail 4 "opening ${closed[0]}, which process $pid has mapped, needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE"
		[ -n "$others" ] || fail 6 "process $pid has no probes: is the provider loaded?"
		fail 7 "process $pid has no probe ${probe#\*:}, but has ${others% }"
	fi
fi

# bpftrace counts the seconds, so that the time to attach is not included.
status=0
seen=$(timeout -k 5 -s INT $((seconds + 60)) bpftrace -B line ${flags[@]+"${flags[@]}"} \
	-e "usdt:$where:$probe $filter { printf(\"%s fired\n\", probe); exit(); }
	    interval:s:$seconds { printf(\"silent\n\"); exit(); }" 2>"$errors") || status=$?
case $seen in
*" fired"*) echo "${probe#\*:} fired" ;;
*)
	! ended || fail 3 "process $pid has ended"
	case $seen in *silent*) fail 1 "${probe#\*:} did not fire within $seconds s" ;; esac
	(exit $status) || broken "bpftrace could not attach"
	broken "bpftrace ended before the probe fired"
	;;
esac

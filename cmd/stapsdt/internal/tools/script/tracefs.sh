# shellcheck shell=sh disable=SC2154 # pids, events and instance are set above

set -eu
tracefs=/sys/kernel/tracing
trace=$tracefs/instances/$instance
added=''

fail() {
	echo "$*" >&2
	exit 1
}

# file PATH SHA256 sets file to a path for the kernel. An offset in another file could be
# in the middle of an instruction.
file() {
	[ -e "$1" ] || fail "$1 does not exist"
	command -v sha256sum >/dev/null || fail "sha256sum is missing"
	[ "$(sha256sum <"$1")" = "$2  -" ] || fail "$1 has changed: make this script again"
	file=$1
	case $1 in *[!A-Za-z0-9_./+-]*)
		# The kernel reads no blanks.
		exec 3<"$1"
		file=/proc/$$/fd/3
		;;
	esac
}

# define EVENT REST makes an event.
define() {
	[ ! -e "$tracefs/events/$1" ] || fail "the event $1 exists: remove it first"
	printf '%s\n' "p:$1 $file:$2" >>$tracefs/uprobe_events || {
		tail -n 3 $tracefs/error_log >&2 || :
		fail "the kernel refuses the event $1"
	}
	added="$added $1"
}

add() {
	[ -e $tracefs/uprobe_events ] || mount -t tracefs tracefs $tracefs || fail "$tracefs cannot be mounted"
	[ -e $tracefs/uprobe_events ] || fail "this kernel has no uprobe_events"
	[ ! -e "$trace" ] || fail "this script runs already, or was not removed: sh $0 remove"
	trap 'remove "$added"' EXIT
	define_all
	mkdir "$trace"
	if [ -n "$pids" ]; then
		echo 1 >"$trace/options/event-fork"
		# Twice, because a thread may begin another one meanwhile.
		for pid in $pids $pids; do ls "/proc/$pid/task" >>"$trace/set_event_pid"; done
	fi
	for event in $events; do echo 1 >"$trace/events/$event/enable"; done
	trap - EXIT
}

# remove EVENTS removes these events and the buffer.
remove() {
	status=0
	for event in $1; do
		[ ! -e "$trace/events/$event/enable" ] || echo 0 >"$trace/events/$event/enable" || status=1
	done
	[ ! -e "$trace" ] || rmdir "$trace" || status=1
	for event in $1; do
		[ ! -e "$tracefs/events/$event" ] || printf '%s\n' "-:$event" >>$tracefs/uprobe_events || status=1
	done
	return $status
}

# finish prints what the reader has not, and removes the events.
finish() {
	trap - EXIT INT TERM HUP
	for event in $events; do echo 0 >"$trace/events/$event/enable"; done
	kill "$reader" 2>/dev/null || :
	wait "$reader" 2>/dev/null || :
	grep -v '^#' "$trace/trace" || :
	remove "$events"
	exit
}

case ${1:-} in
'')
	add
	cat "$trace/trace_pipe" &
	reader=$!
	trap finish EXIT INT TERM HUP
	wait "$reader"
	;;
add) add ;;
print) exec cat "$trace/trace_pipe" ;;
remove) remove "$events" ;;
*) fail "usage: sh $0 [add | print | remove]" ;;
esac

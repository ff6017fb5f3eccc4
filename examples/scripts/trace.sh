#!/bin/sh
# Runs a script for the functions of a program in any language: puts the language's probes and
# arguments in the place of the words in capitals, and starts bpftrace or DTrace, as root.
#
#	trace.sh LANGUAGE SCRIPT PID       for example: trace.sh python flow 1234
#	trace.sh LANGUAGE SCRIPT PID -     prints the program instead
#
# LANGUAGE is python, perl, ruby, php, lua, wasm or lisp. SCRIPT is flow, calls, time, hot,
# malloc, faults or locks for bpftrace, and flow.d, calls.d or time.d for DTrace: each begins
# with what it shows. $BPFTRACE and $DTRACE are the commands, or else bpftrace and dtrace.
set -eu

[ $# -ge 3 ] || { sed -n 's/^# \{0,1\}//; 2,10p' "$0" >&2; exit 2; }
language=$1 script=$2 pid=$3 directory=$(dirname "$0")
case $script in *.d | *.bt) ;; *) script=$script.bt ;; esac
thread=tid # what has a stack of functions of its own
stack=tid running=tid switch='' clear='' before='' # the same for events of the kernel, which have no arguments
allocation=uprobe:libc:malloc bytes=arg0
case $language in
python) entry=function__entry return=function__return where='str(arg0)' name='str(arg1)' file='str(arg0)' line=arg2 ;;
lua | wasm | lisp)
	entry=function__entry return=function__return where='str(arg0)' name='str(arg1)' file='str(arg0)' line=arg2 thread=arg3
	# A goroutine moves from thread to thread. These are its ID, as docs/goroutines.md says.
	bytes='reg("ax")' g=r14
	[ "$(uname -m)" != aarch64 ] || { bytes='reg("r0")' g=r28; }
	exe=/proc/$pid/exe allocation=uprobe:/proc/$pid/exe:runtime.mallocgc
	stack="*(uint64*)(reg(\"$g\") + 152)" started="*(uint64*)($bytes + 152)"
	running='@g[tid]' switch="@g[tid] = $stack;" clear='clear(@g);'
	case $script in
	locks.bt) before="$directory/parked.bt $directory/goroutines.bt" clear="$clear clear(@parked);" ;;
	hot.bt | malloc.bt | faults.bt) before=$directory/goroutines.bt ;;
	esac ;;
perl) entry=sub__entry return=sub__return where='str(arg3)' name='str(arg0)' file='str(arg1)' line=arg2 ;;
ruby) entry=method__entry return=method__return where='str(arg0)' name='str(arg1)' file='str(arg2)' line=arg3 ;;
php) entry=function__entry return=function__return where='str(arg3)' name='str(arg0)' file='str(arg1)' line=arg2 ;;
*) echo "trace.sh: there is no language $language" >&2; exit 2 ;;
esac
[ -f "$directory/$script" ] || { echo "trace.sh: there is no script $script" >&2; exit 2; }

# The file of probes that were made at run time, or else the interpreter's own probes. bpftrace
# does not read arguments by -p if both have a probe of the same name.
probes=$(sed -nE "s#.* (/.*/$language-([0-9A-Za-z]{6}|[0-9a-f]{32})\.so)\$#/proc/$pid/root\1#p" "/proc/$pid/maps" | head -n 1)
process=
case $script in
*.bt)
	command=${BPFTRACE:-bpftrace} option=-e
	[ -n "$probes" ] || { probes='*' process="-p $pid"; }
	probes=usdt:$probes:$language
	;;
*.d) # its providers have the process ID in their names, and a dash for each __
	command=${DTRACE:-dtrace} option=-n
	[ -z "$probes" ] || probes=$(basename "$probes")
	probes=$language$pid:$probes:
	entry=$(echo "$entry" | sed 's/__/-/') return=$(echo "$return" | sed 's/__/-/')
	where=copyin$where name=copyin$name file=copyin$file
	;;
esac

# shellcheck disable=SC2086 # before is several files, or none
program=$(sed -e "s|\<ENTRY\>|$probes:$entry|; s|\<RETURN\>|$probes:$return|" \
	-e "s|\<WHERE\>|$where|g; s|\<NAME\>|$name|g; s|\<FILE\>|$file|g; s|\<LINE\>|$line|g; s|\<THREAD\>|$thread|g; s|\<PID\>|$pid|g" \
	-e "s|\<ALLOCATION\>|$allocation|; s|\<BYTES\>|$bytes|; s|\<SWITCH\>|$switch|; s|\<CLEAR\>|$clear|" \
	-e "s|\<STACK\>|$stack|g; s|\<RUNNING\>|$running|g; s|\<STARTED\>|${started-}|g; s|\<PROGRAM\>|${exe-}|" $before "$directory/$script")
[ $# -eq 3 ] || { printf '%s\n' "$program"; exit; }
# shellcheck disable=SC2086 # both are several words, or none
exec $command $process $option "$program"

#!/bin/sh
# Runs a script for the functions of a program in any language: puts the language's probes and
# arguments in the place of the words in capitals, and starts bpftrace, as root.
#
#	trace.sh LANGUAGE SCRIPT PID       for example: trace.sh python flow 1234
#	trace.sh LANGUAGE SCRIPT PID -     prints the program instead
#
# LANGUAGE is python, perl, ruby, php, lua, wasm or lisp. SCRIPT is flow, calls, time, hot,
# malloc, faults or locks: each begins with what it shows. $BPFTRACE is the command, or else
# bpftrace.
set -eu

[ $# -ge 3 ] || { sed -n 's/^# \{0,1\}//; 2,10p' "$0" >&2; exit 2; }
language=$1 script=$2 pid=$3 directory=$(dirname "$0")
thread=tid # what has a stack of functions of its own
allocation=uprobe:libc:malloc bytes=arg0
case $language in
python) entry=function__entry return=function__return where='str(arg0)' name='str(arg1)' file='str(arg0)' line=arg2 ;;
lua | wasm | lisp)
	entry=function__entry return=function__return where='str(arg0)' name='str(arg1)' file='str(arg0)' line=arg2 thread=arg3
	allocation=uprobe:/proc/$pid/exe:runtime.mallocgc bytes='reg("ax")'
	[ "$(uname -m)" != aarch64 ] || bytes='reg("r0")' ;;
perl) entry=sub__entry return=sub__return where='str(arg3)' name='str(arg0)' file='str(arg1)' line=arg2 ;;
ruby) entry=method__entry return=method__return where='str(arg0)' name='str(arg1)' file='str(arg2)' line=arg3 ;;
php) entry=function__entry return=function__return where='str(arg3)' name='str(arg0)' file='str(arg1)' line=arg2 ;;
*) echo "trace.sh: there is no language $language" >&2; exit 2 ;;
esac
[ -f "$directory/$script.bt" ] || { echo "trace.sh: there is no script $script" >&2; exit 2; }

# The file of probes that were made at run time, or else the interpreter's own probes. bpftrace
# does not read arguments by -p if both have a probe of the same name.
probes=$(sed -nE "s#.* (/.*/$language-([0-9A-Za-z]{6}|[0-9a-f]{32})\.so)\$#/proc/$pid/root\1#p" "/proc/$pid/maps" | head -n 1)
process=
[ -n "$probes" ] || { probes='*' process="-p $pid"; }

program=$(sed -e "s|\<ENTRY\>|usdt:$probes:$language:$entry|; s|\<RETURN\>|usdt:$probes:$language:$return|" \
	-e "s|\<WHERE\>|$where|g; s|\<NAME\>|$name|g; s|\<FILE\>|$file|g; s|\<LINE\>|$line|g; s|\<THREAD\>|$thread|g; s|\<PID\>|$pid|g" \
	-e "s|\<ALLOCATION\>|$allocation|; s|\<BYTES\>|$bytes|" "$directory/$script.bt")
[ $# -eq 3 ] || { printf '%s\n' "$program"; exit; }
# shellcheck disable=SC2086 # both are several words, or none
exec ${BPFTRACE:-bpftrace} $process -e "$program"

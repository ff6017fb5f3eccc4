#!/bin/sh
# Tests of tracers on the running demo.
suite=trace
. "$(dirname "$0")/lib.sh"

loaded() {
	grep -q '^loaded as' "$log/demo"
}

# start OPTION PROVIDER
start() {
	: >"$log/demo"
	./demo $1 -t 100 "$2" first $other >"$log/demo" 2>&1 &
	demo=$!
	wait_for 60 loaded
}

gdb_lists() {
	timeout 120 gdb -nx -batch -p $demo -ex "info probes stap $1" </dev/null >"$log/gdb" 2>&1
	grep -q "$1  *first  *0x" "$log/gdb" && grep -q "$1  *$other  *0x" "$log/gdb" && return
	cat "$log/gdb"
	return 1
}

bpftrace_lists() {
	timeout 120 bpftrace -p $demo -l 'usdt:*' >"$log/list" 2>&1
	grep -q ":$1:first$" "$log/list" && grep -q ":$1:$other$" "$log/list" && return
	cat "$log/list"
	return 1
}

# Six events, each with a positive number and its negative.
bpftrace_traces() {
	timeout 120 bpftrace -p $demo -e "
		usdt:*:$1:first { printf(\"first %d %d\\n\", arg0, arg1); @n = @n + 1; if (@n > 5) { exit(); } }
		usdt:*:$1:$other { printf(\"second %d %d\\n\", arg0, arg1); }" >"$log/trace" 2>&1
	awk '$1 == "first" || $1 == "second" { if ($2 > 0 && $3 == -$2) n[$1]++; else bad = 1 }
		END { exit bad || n["first"] < 5 || n["second"] < 4 }' "$log/trace" &&
		grep -q "^$1:first(.*) traced" "$log/demo" && return
	cat "$log/trace" "$log/demo"
	return 1
}

# The names of the arguments are in the file.
image_file() {
	sed -n 's/^loaded as \(.*\); in another terminal:$/\1/p' "$log/demo"
}

bpftrace_names() {
	timeout 120 bpftrace -lv "uprobe:$(image_file):first" >"$log/list" 2>&1
	grep -q '^ *uint64 count$' "$log/list" && grep -q '^ *int64 negative$' "$log/list" && return
	cat "$log/list"
	return 1
}

bpftrace_reads_names() {
	case $(bpftrace --version) in
	*v0.17.*) args='args->' ;;
	*) args=args. ;;
	esac
	timeout 120 bpftrace -e "uprobe:$(image_file):first {
		printf(\"named %d %d\\n\", ${args}count, ${args}negative); @n = @n + 1; if (@n > 5) { exit(); } }" >"$log/trace" 2>&1
	awk '$1 == "named" { if ($2 > 0 && $3 == -$2) n++; else bad = 1 } END { exit bad || n < 5 }' "$log/trace" && return
	cat "$log/trace"
	return 1
}

perf_reads_names() {
	HOME=$log perf probe -x "$(image_file)" -V first >"$log/perf" 2>&1 &&
		grep -q 'uint64[[:space:]]*count$' "$log/perf" && grep -q 'int64[[:space:]]*negative$' "$log/perf" && return
	cat "$log/perf"
	return 1
}

gdb_reads_names() {
	gdb -nx -batch -ex 'info scope first' "$(image_file)" >"$log/gdb" 2>&1
	grep -q '^Symbol count is a variable' "$log/gdb" && grep -q '^Symbol negative is a variable' "$log/gdb" && return
	cat "$log/gdb"
	return 1
}

tplist() {
	timeout 120 tplist-bpfcc -p $demo >"$log/tplist" 2>&1
	grep -q "$1:first" "$log/tplist" && return
	cat "$log/tplist"
	return 1
}

root() {
	[ "$(id -u)" -eq 0 ] && return
	echo "skip $suite: $1: not root"
	return 1
}

# perf has its own build-ID cache, in its own home directory.
perf_lists() {
	HOME=$log perf buildid-cache --add "$(image_file)" &&
		HOME=$log perf list sdt >"$log/perf" 2>&1 && grep -q "sdt_$1:first" "$log/perf" && return
	cat "$log/perf"
	return 1
}

for mode in memory file; do
	provider=demo$$$mode
	option=
	other=second.sub-entry
	if [ $mode = file ]; then # for perf, which takes identifiers only
		option=-f
		other=second__entry
	fi
	check "$mode: the demo loads" start "$option" $provider
	have gdb gdb "$mode: gdb lists" && check "$mode: gdb lists" gdb_lists $provider
	if root "$mode: bpftrace" && have bpftrace bpftrace "$mode: bpftrace"; then
		check "$mode: bpftrace lists" bpftrace_lists $provider
		check "$mode: bpftrace traces" bpftrace_traces $provider
	fi
	root "$mode: tplist" && have tplist-bpfcc bpfcc-tools "$mode: tplist" &&
		check "$mode: tplist lists" tplist $provider
	[ $mode = file ] && have perf linux-perf "$mode: perf lists" && check "$mode: perf lists" perf_lists $provider
	if [ $mode = file ]; then
		if root "$mode: bpftrace, names" && have bpftrace bpftrace "$mode: bpftrace, names"; then
			check "$mode: bpftrace lists names" bpftrace_names
			check "$mode: bpftrace reads names" bpftrace_reads_names
		fi
		root "$mode: perf, names" && have perf linux-perf "$mode: perf, names" &&
			check "$mode: perf reads names" perf_reads_names
		have gdb gdb "$mode: gdb, names" && check "$mode: gdb reads names" gdb_reads_names
	fi
	check "$mode: the demo ends" sh -c "kill $demo"
	wait $demo
done
check "nothing is left in /tmp" sh -c "! ls /tmp/demo$$* 2>/dev/null"

# Runs programs in the background until the script ends; to be sourced. Their output and all
# other files are in the directory $work, which is removed at the end.

work=$(mktemp -d)
background=()
finish() {
	for job in ${background[@]+"${background[@]}"}; do kill -- "$job" 2>/dev/null || true; done
	rm -rf "$work"
}
trap finish EXIT

# eventually COMMAND... repeats the command until it succeeds, for at most $patience seconds.
patience=120
eventually() {
	for _ in $(seq $((patience * 10))); do
		! "$@" || return 0
		sleep 0.1
	done
	return 1
}

# start COMMAND... runs it in the background, sets pid to its process, and waits until it has
# printed something.
start() {
	rm -f "$work/out" # which the one before may go on writing to
	"$@" >"$work/out" 2>&1 &
	pid=$!
	background+=("$pid")
	eventually test -s "$work/out" || { echo "$* has printed nothing for $patience s" >&2; return 1; }
}

# sees PATTERN COMMAND... succeeds if the tracer prints a line that matches within $patience
# seconds, or when it is interrupted after that.
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

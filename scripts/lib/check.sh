# Counts the checks that pass and fail; to be sourced.

passed=0 failed=0

# check NAME COMMAND... passes if the command succeeds, and shows its output otherwise.
check() {
	local name=$1 log status=0
	shift
	log=$(mktemp)
	"$@" >"$log" 2>&1 || status=$?
	if [ $status -eq 0 ]; then
		echo "ok $name"
		passed=$((passed + 1))
	else
		sed 's/^/# /' "$log"
		echo "not ok $name"
		failed=$((failed + 1))
	fi
	rm -f "$log"
}

# verdict prints how many passed, and fails if one failed.
verdict() {
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}

# Counts what passes and what fails; to be sourced.

passed=0 failed=0

# check NAME COMMAND...: it succeeds; what it printed is shown when it does not.
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

# verdict says how many passed, and fails when one failed.
verdict() {
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}

# The functions of the shell tests, which print "ok", "not ok" or "skip" lines, as the C tests do.
set -u
cd "$(dirname "$0")/.."
export LC_ALL=C
OUT=${OUT:-out}
case $OUT in
/*) ;;
*) OUT=$PWD/$OUT ;;
esac
CC=${CC:-cc}
log=$(mktemp -d "${TMPDIR:-/tmp}/stapsdt-test-XXXXXX")
trap 'rm -rf "$log"' EXIT

# check NAME COMMAND...: the command must succeed; its output is shown if it fails.
check() {
	name=$1
	shift
	if "$@" >"$log/check" 2>&1; then
		echo "ok $suite: $name"
	else
		sed 's/^/# /' "$log/check"
		echo "not ok $suite: $name"
	fi
}

# have COMMAND PACKAGE NAME: reports whether the command exists; if not, the test is skipped.
have() {
	command -v "$1" >/dev/null && return
	echo "skip $suite: $3: no $1: apt-get install $2"
	return 1
}

# wait_for SECONDS COMMAND...: waits until the command succeeds.
wait_for() {
	tries=$(($1 * 10))
	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.1
	done
}

# What the shell tests share. Each prints "ok", "not ok" or "skip" lines, as the C ones do.
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

# check NAME COMMAND...: it succeeds; its output is shown when it does not.
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

# have COMMAND PACKAGE NAME: reports whether the command is there; if not, the test is a skip.
have() {
	command -v "$1" >/dev/null && return
	echo "skip $suite: $3: no $1: apt-get install $2"
	return 1
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
	tries=$(($1 * 10))
	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.1
	done
}

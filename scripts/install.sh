# Installs the Debian or Ubuntu packages that are not there yet; to be sourced.
#
#   need COMMAND-OR-FILE=PACKAGE ...
#
# It says what it installs, and fails with what to install by hand where there
# is no apt-get.

if [ "$(id -u)" -eq 0 ]; then sudo=; else sudo=sudo; fi

need() {
	local missing=() pair
	for pair in "$@"; do
		command -v "${pair%%=*}" >/dev/null 2>&1 || [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "Install these first: ${missing[*]}" >&2
		return 1
	fi
	echo "Installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq
	$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Installs the Debian or Ubuntu packages that are missing; to be sourced.
#
#   need COMMAND-OR-FILE=PACKAGE[|PACKAGE...] ...
#
# It takes the first of the packages that the distribution has.
#
# It prints what it installs. If there is no apt-get, it fails and prints what to install by
# hand. If apt-get fails, the status is 75, and a line that begins with "not run:" names the packages that
# could not be installed.

# persistently COMMAND... repeats a command that fetches something, for half a minute or so, until it
# succeeds. If it does not, the status is 75, and a line that begins with "not run:" says so.
persistently() {
	local pause
	for pause in 5 15; do
		! "$@" || return 0
		echo "It failed: $*. Trying again in $pause s" >&2
		sleep $pause
	done
	"$@" || { echo "not run: it failed three times: $*" >&2; return 75; }
}

if [ "$(id -u)" -eq 0 ]; then sudo=; else sudo=sudo; fi

need() {
	local missing=() pair
	for pair in "$@"; do
		PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%=*}" >/dev/null 2>&1 || [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
		echo "Install these first: ${missing[*]}" >&2
		return 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	local get=(apt-get -qq -o Acquire::Retries=3)
	[ -z "$sudo" ] || get=(sudo "${get[@]}")
	# Lists that are old are better than none, and apt-get says what is missing.
	"${get[@]}" update || echo "Installing from the lists that are here" >&2
	local packages=() names name refused=()
	for names in "${missing[@]}"; do
		for name in ${names//|/ }; do
			[ -z "$(apt-cache show "$name" 2>/dev/null)" ] || break
		done
		packages+=("$name") # the last, if it has none: apt-get says so
	done
	echo "Installing ${packages[*]}"
	get+=(-y --no-install-recommends install)
	! "${get[@]}" "${packages[@]}" >/dev/null || return 0
	# One that is missing keeps all from being installed.
	for name in "${packages[@]}"; do "${get[@]}" "$name" >/dev/null || refused+=("$name"); done
	[ ${#refused[@]} -gt 0 ] || return 0
	echo "not run: apt-get could not install ${refused[*]}" >&2
	return 75
}

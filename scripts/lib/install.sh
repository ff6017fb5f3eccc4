# Installs the Debian or Ubuntu packages that are missing; to be sourced.
#
#   need COMMAND-OR-FILE=PACKAGE[|PACKAGE...] ...
#
# It takes the first of the packages that the distribution has.
#
# It prints what it installs. If there is no apt-get, it fails and prints what to install by
# hand.

# persistently COMMAND... repeats a command that fetches something, for a minute or so, until it
# succeeds.
persistently() {
	local pause
	for pause in 5 15 45; do
		! "$@" || return 0
		echo "It failed: $*. Trying again in $pause s" >&2
		sleep $pause
	done
	"$@"
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
	# Lists that are old are better than none, and apt-get says what is missing.
	persistently $sudo apt-get update -qq || echo "Installing from the lists that are here" >&2
	local packages=() names name
	for names in "${missing[@]}"; do
		for name in ${names//|/ }; do
			[ -z "$(apt-cache show "$name" 2>/dev/null)" ] || break
		done
		packages+=("$name") # the last, if it has none: apt-get says so
	done
	echo "Installing ${packages[*]}"
	persistently $sudo apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

#!/usr/bin/env bash
# Builds the packages libstapsdt0 and libstapsdt-dev, checks them with lintian, and as root
# installs, uses and removes them in a small Debian, which it makes with debootstrap (470 MB, kept
# in $STAPSDT_CACHE, by default ~/.cache/stapsdt).
#
#   scripts/lib/deb.sh                does so
#   scripts/lib/deb.sh --quick        only builds and checks them
#   scripts/lib/deb.sh DIRECTORY      only builds and checks them, and leaves them in the directory
#
# The Debian has another mount namespace, whose mounts end with the last program in it.
set -euo pipefail
directory=''
[ "${1:---quick}" = --quick ] || directory=$(realpath -m -- "$1")
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/debian.sh
. scripts/lib/debian.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh

need gcc=gcc dpkg-buildpackage=dpkg-dev dh=debhelper lintian=lintian /usr/include/libelf.h=libelf-dev
version=$(make -s -C cstapsdt version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

built() { library_packages "$(dpkg --print-architecture)" "$work/library"; }

# clean succeeds if lintian has nothing to say, not even a recommendation.
clean() {
	local said
	said=$(lintian --allow-root --profile debian --display-info --pedantic --fail-on none "$work"/library/*.changes)
	echo "$said"
	[ -z "$said" ]
}

same_version() {
	[ "$(dpkg-parsechangelog -l cstapsdt/debian/changelog -S Version)" = "$version" ]
}

# bootstrapped makes the Debian, unless it exists.
bootstrapped() {
	[ ! -e "$debian" ] || return 0
	rm -rf "$debian.new"
	mkdir -p "$debian.new"
	unshare --mount debootstrap --variant=minbase --include=gcc,libc6-dev,libelf-dev,pkg-config --keyring="$debian_keyring" \
		"$suite" "$debian.new" "$(debian_archive)" && mv "$debian.new" "$debian"
}

# in_debian COMMAND... becomes the command in the copy of the Debian, as which it has this process's number.
in_debian() {
	# shellcheck disable=SC2016 # it is the inner shell that expands these
	exec unshare --mount sh -euc 'mount -t proc proc "$0/proc"; exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$system" "$@"
}

in_shell() (in_debian sh -euc "$*")

installed() {
	cp "$work"/library/libstapsdt{0,-dev}_*.deb "$system/tmp"
	in_shell 'dpkg -i /tmp/*.deb; ldconfig -p | grep -w libstapsdt.so.0; ls /usr/share/doc/libstapsdt0/copyright'
}

# used builds the example against the packages, linked with either library.
used() {
	cp examples/c/lines.c "$system/tmp"
	in_shell 'cd /tmp
		[ "$(pkg-config --modversion libstapsdt)" = '"$version"' ]
		cc -o lines lines.c $(pkg-config --cflags --libs libstapsdt)
		cc -o static lines.c -l:libstapsdt.a $(pkg-config --static --libs libstapsdt | sed s/-lstapsdt//)
		for program in lines static; do [ "$(printf "a\nbc\n" | ./$program)" = "2 5" ]; done
		readelf -d lines | grep "NEEDED.*libstapsdt.so.0"
		! readelf -d static | grep libstapsdt'
}

traced() {
	local program events
	CGO_ENABLED=0 go build -C cmd/stapsdt -o "$work/stapsdt" .
	in_debian /tmp/lines < <(while echo line; do sleep 0.1; done) &
	program=$!
	events=$("$work/stapsdt" trace -a lines:line__read -n 1 -d 60s) || true
	kill $program
	[ -n "$events" ]
}

# removed succeeds if nothing of the packages is left.
removed() {
	in_shell 'dpkg --purge libstapsdt-dev libstapsdt0; rm /tmp/*.deb'
	! find "$system" -name '*stapsdt*' | grep .
}

check "the packages' version is the library's" same_version
check "dpkg-buildpackage" built
check "lintian" clean
if [ -n "${1:-}" ]; then
	[ -z "$directory" ] || install -D -m 644 -t "$directory" "$work"/library/libstapsdt*_*
	verdict
	exit
fi

[ "$(id -u)" -eq 0 ] || { echo "deb.sh: chroot needs root: try sudo, or --quick" >&2; exit 1; }
need debootstrap=debootstrap "$debian_keyring=debian-archive-keyring" unshare=util-linux
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
suite=bookworm
debian=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}/debian-$suite-$(dpkg --print-architecture)
check "debootstrap" persistently bootstrapped
# This is a copy, in which the packages are installed.
system=$work/system
cp -a "$debian" "$system"
check "install" installed
check "build a program, with the shared and with the static library" used
check "trace it" traced
check "remove" removed
verdict

#!/usr/bin/env bash
# Builds and runs a program with cgo where libelf is installed, partly installed, and not
# installed. For this it downloads a system of its own that has gcc and the C library (250 MB,
# kept in $STAPSDT_CACHE, by default ~/.cache/stapsdt). It needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/debian.sh
. scripts/lib/debian.sh
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh

[ "$(id -u)" -eq 0 ] || { echo "builders.sh: chroot needs root: try sudo" >&2; exit 1; }
need "$debian_keyring=debian-archive-keyring" unshare=util-linux strace=strace
suite=bookworm arch=$(dpkg --print-architecture)
cache=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}
mkdir -p "$cache"
apt=$cache/apt/$suite-$arch compiler=$cache/compiler-$suite-$arch
GOWORK=off persistently go mod download

[ -e "$compiler" ] || foreign_tree "$apt" "$suite" "$arch" "$compiler" gcc libc6-dev coreutils dash

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Before the first check, so that a fault of the mirror hides none.
(cd "$work" && foreign_apt "$apt" "$suite" "$arch" apt-get -qq download libelf-dev libelf1 zlib1g)

# library PACKAGE... unpacks libelf's packages into the system.
library() {
	local package
	for package in "$@"; do
		dpkg-deb --fsys-tarfile "$work/$package"_*.deb | tar -x --keep-directory-symlink -C "$system"
	done
}

# in_system COMMAND... runs it in the system, where Go, this repository and the modules can
# be read.
in_system() {
	local GOROOT GOMODCACHE
	GOROOT=$(go env GOROOT) GOMODCACHE=$(go env GOMODCACHE)
	mkdir -p "$system"/{go,mod,src,proc,tmp,dev}
	: >"$system/dev/null"
	GOROOT=$GOROOT GOMODCACHE=$GOMODCACHE system=$system unshare --mount sh -euc '
		mount --bind "$GOROOT" "$system/go"
		mount --bind "$GOMODCACHE" "$system/mod"
		mount --bind . "$system/src"
		mount -t proc proc "$system/proc"
		mount --bind /dev/null "$system/dev/null"
		exec chroot "$system" env -i PATH=/go/bin:/usr/bin:/bin HOME=/tmp GOMODCACHE=/mod GOCACHE=/tmp/cache \
			GOPROXY=off GOWORK=off GOFLAGS=-modcacherw GOTOOLCHAIN=local CGO_ENABLED=1 STAPSDT_DEBUG=1 dash -euc "cd /src; $*"' sh "$@"
}

# build FLAGS... builds the program. Go's cache does not notice that headers have been added
# or removed, so each build of the C code has a flag of its own.
stage=0
build() {
	stage=$((stage + 1))
	in_system "CGO_CFLAGS=-DSTAGE=$stage go build $* -o /tmp/program ./testdata/loaded"
}

# built WORDS FLAGS... succeeds if the program builds, does not depend on libelf, and reports
# that its image was built as the words say.
built() {
	local words=$1 said
	shift
	build "$@" || return
	! readelf -d "$system/tmp/program" | grep -i libelf || return
	said=$(in_system /tmp/program 2>&1) || return
	echo "$said"
	[[ $said == *"$words"* ]]
}

# never_opens succeeds if the program does not even look for libelf.
never_opens() {
	build "$@" || return
	strace -f chroot "$system" /tmp/program >"$work/calls" 2>&1 || return
	! grep -i libelf "$work/calls"
}

static='-ldflags "-linkmode external -extldflags -static"'

# This is a copy, to which libelf is added step by step.
system=$work/system
cp -a "$compiler" "$system"
check "neither headers nor library" built "built in Go"
library libelf-dev
check "headers, and no library where it runs" built "built in Go"
check "static" built "built in Go" "$static"
library libelf1 zlib1g
check "headers and library" built "built by libelf"
check "static, beside libelf" built "built in Go" "$static"
check "static: libelf is not looked for" never_opens "$static"
rm "$system"/usr/include/{libelf,gelf}.h
check "a library without its headers" built "built in Go"

verdict

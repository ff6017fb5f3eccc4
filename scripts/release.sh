#!/usr/bin/env bash
# Makes the files of a release from what is committed at HEAD, in a new directory:
#
#   scripts/release.sh VERSION DIRECTORY
#
#   stapsdt-VERSION-linux-ARCH.tar.gz   the command, manual pages, completions, a unit for systemd, and licenses
#   stapsdt-VERSION-darwin-ARCH.tar.gz  the command for macOS, without the unit
#   stapsdt-VERSION-windows-amd64.zip   the command for Windows, and licenses
#   stapsdt_VERSION_ARCH.deb            that for Linux as a Debian package
#   stapsdt.yaml                        the manifest of the plugin of kubectl for krew
#   stapsdt-VERSION-image.tar           the image of the command for both architectures, as an OCI archive
#   libstapsdt0_*, libstapsdt-dev_*     the C library
#   SHA256SUMS
#
# VERSION is v1.2.3 or v1.2.3-rc.1, and ARCH amd64 and arm64. With the same Go, compilers and Debian the
# files are the same bytes, wherever and whenever they are made: all of their times are those of the
# commit. scripts/lib/release_test.sh compares two builds.
set -euo pipefail
if ! [[ $# -eq 2 && $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$ ]]; then
	echo "usage: scripts/release.sh v1.2.3 DIRECTORY" >&2
	exit 2
fi
version=$1 directory=$(realpath -m -- "$2")
[ ! -e "$directory" ] || { echo "release.sh: $2 exists" >&2; exit 1; }
umask 022
export LC_ALL=C TZ=UTC
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
cache=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/files"
git -c tar.umask=0022 archive HEAD | tar -x -C "$work/source"
cd "$work/source"
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/debian.sh
. scripts/lib/debian.sh
# shellcheck source=scripts/lib/packages.sh
. scripts/lib/packages.sh
need gcc=gcc dpkg-buildpackage=dpkg-dev dh=debhelper python3=python3 /usr/include/libelf.h=libelf-dev xz=xz-utils zip=zip

host=$(dpkg --print-architecture)
case $host in
amd64) other=arm64 ;;
arm64) other=amd64 ;;
*) echo "release.sh: releases are made on amd64 or arm64" >&2; exit 1 ;;
esac

# command_binary SYSTEM-ARCH builds the command into $work/SYSTEM-ARCH/bin.
command_binary() {
	mkdir -p "$work/$1/bin"
	env -C cmd/stapsdt GOFLAGS= GOEXPERIMENT= GOFIPS140=off GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 GOOS="${1%-*}" GOARCH="${1#*-}" \
		go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$version -X main.commit=$commit" -o "$work/$1/bin/" .
}

# licenses SYSTEM-ARCH writes the licenses of Go and of every module that is linked into the command. It
# fails if one has none.
licenses() {
	local file=$work/$1/LICENSES paths module root files
	{
		echo "stapsdt"
		echo
		cat LICENSE
		printf '\n\nGo, https://go.dev\n\n'
		cat "$(go env GOROOT)/LICENSE"
	} >"$file"
	paths=$(go version -m "$work/$1/bin"/* | awk '$1 == "dep" && $2 !~ /^github.com\/go-stapsdt\/stapsdt/ { print $2 }')
	[ -n "$paths" ]
	for module in $paths; do
		root=$(go list -C cmd/stapsdt -m -f '{{.Dir}}' "$module")
		files=$(find "$root" -maxdepth 1 -type f -iregex '.*/\(licen[sc]e\|copying\|notice\)[^/]*' | sort)
		[ -n "$files" ] || { echo "release.sh: $module has no license" >&2; return 1; }
		printf '\n\n%s\n\n' "$(go list -C cmd/stapsdt -m "$module")" >>"$file"
		# shellcheck disable=SC2086 # the module cache has no spaces in its names
		cat $files >>"$file"
	done
}

# texts has this machine's command write the manual pages and completions.
texts() {
	local shell
	"$work/linux-$host/bin/stapsdt" man "$work/texts/man1"
	for shell in bash zsh fish; do "$work/linux-$host/bin/stapsdt" completion "$shell" >"$work/texts/stapsdt.$shell"; done
}

# archive SYSTEM-ARCH makes the archive of a system.
archive() {
	local name=stapsdt-$version-$1
	local tree=$work/$1/$name
	mkdir -p "$tree"
	cp "$work/$1/bin"/* "$work/$1/LICENSES" "$tree"
	if [[ $1 = windows-* ]]; then
		find "$tree" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
		(cd "$work/$1" && find "$name" | sort | zip -qX9 "$work/files/$name.zip" -@)
		return
	fi
	mkdir "$tree/completions"
	cp -r "$work/texts/man1" "$tree"
	cp "$work"/texts/stapsdt.* "$tree/completions"
	[[ $1 != linux-* ]] || cp packaging/stapsdt.service "$tree"
	tar -C "$work/$1" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c "$name" | gzip -9n >"$work/files/$name.tar.gz"
}

# package ARCH makes the Debian package.
package() {
	local tree=$work/linux-$1/tree number=${version#v}
	number=${number/-/\~}
	local usr=$tree/usr
	local doc=$usr/share/doc/stapsdt
	install -D "$work/linux-$1/bin/stapsdt" -t "$usr/bin"
	install -D -m 644 "$work"/texts/man1/* -t "$usr/share/man/man1"
	install -D -m 644 "$work/texts/stapsdt.bash" "$usr/share/bash-completion/completions/stapsdt"
	install -D -m 644 "$work/texts/stapsdt.zsh" "$usr/share/zsh/vendor-completions/_stapsdt"
	install -D -m 644 "$work/texts/stapsdt.fish" "$usr/share/fish/vendor_completions.d/stapsdt.fish"
	install -D -m 644 "$work/linux-$1/LICENSES" CHANGELOG.md -t "$doc"
	install -m 644 cstapsdt/debian/copyright "$doc"
	cat >"$doc/changelog" <<-END
		stapsdt ($number) unstable; urgency=medium

		  * See CHANGELOG.md.

		 -- The stapsdt authors <stapsdt@users.noreply.github.com>  $(date -R --date="@$SOURCE_DATE_EPOCH")
	END
	install -d "$usr/share/lintian/overrides"
	echo "stapsdt: statically-linked-binary [usr/bin/stapsdt]" >"$usr/share/lintian/overrides/stapsdt"
	install -D -m 644 packaging/stapsdt.service -t "$doc/examples"
	sed -i 's|/usr/local/bin/|/usr/bin/|' "$doc/examples/stapsdt.service"
	gzip -9n "$usr"/share/man/man1/* "$doc/changelog" "$doc/CHANGELOG.md" "$doc/LICENSES"
	find "$tree" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
	command_package "$1" "$number" "$tree" "$work/files/stapsdt_${number}_$1.deb"
}

# library_sysroot SUITE TREE unpacks libelf for the other architecture. The C library is that of the cross
# compiler.
library_sysroot() (
	mkdir "$work/debs"
	cd "$work/debs"
	foreign_apt "$cache/apt-$1-$other" "$1" "$other" apt-get -qq download libelf-dev libelf1 zlib1g
	for deb in *.deb; do dpkg-deb -x "$deb" tree; done
	rm -rf "$2.new"
	cp -a tree "$2.new" # from another file system: the move that follows is atomic
	mv "$2.new" "$2"
)

# library builds the packages of the C library for this architecture, and with Debian's
# cross compiler for the other one, whose libelf comes from Debian's archive.
library() {
	local suite prefix multiarch sysroot
	library_packages "$host" "$work/library/$host" >&2
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	multiarch=$(dpkg-architecture -a "$other" -q DEB_HOST_MULTIARCH 2>/dev/null)
	prefix=${multiarch//_/-}
	need "$multiarch-gcc=gcc-$prefix" "/usr/$multiarch/include/stdio.h=libc6-dev-$other-cross" "$debian_keyring=debian-archive-keyring"
	sysroot=$cache/libelf-$suite-$other
	[ -e "$sysroot" ] || library_sysroot "$suite" "$sysroot"
	library_packages "$other" "$work/library/$other" "$sysroot" \
		"$(dpkg-deb -f "$work/library/$host"/libstapsdt0_*.deb Depends)" >&2
	cp "$work"/library/*/libstapsdt{0,-dev}_*.deb "$work/files"
}

systems="linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64"
for system in $systems; do
	command_binary "$system"
	licenses "$system"
done
mkdir "$work/texts"
texts
for system in $systems; do archive "$system"; done
krew_manifest "$version" "$work/files"
for arch in amd64 arm64; do package $arch; done
command_image "$version" "$commit" "$work/files/stapsdt-$version-image.tar" \
	"amd64=$work/linux-amd64/bin/stapsdt,$work/linux-amd64/LICENSES" "arm64=$work/linux-arm64/bin/stapsdt,$work/linux-arm64/LICENSES"
library
(cd "$work/files" && sha256sum -- * >SHA256SUMS)
mkdir -p "$(dirname "$directory")"
cp -r "$work/files" "$directory"
ls -l "$directory"

#!/usr/bin/env bash
# Makes a release twice with scripts/release.sh, and compares the bytes: the second time from a clone
# elsewhere, with another umask, locale, time zone and clock. It unpacks and runs what was made.
#
#   scripts/lib/release_test.sh            compiles everything twice
#   scripts/lib/release_test.sh --quick    lets both builds share Go's cache
#
# It tests what is committed at HEAD. The last line says how many checks passed. If libelf cannot be
# downloaded, its status is that of debian.sh.
set -euo pipefail
quick=''
[ "${1:-}" != --quick ] || quick=yes
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/debian.sh
. scripts/lib/debian.sh
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh

faketime=/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1
need git=git "$faketime=libfaketime" mandoc=mandoc lintian=lintian bash=bash zsh=zsh fish=fish \
	qemu-aarch64-static=qemu-user-static file=file readelf=binutils unzip=unzip skopeo=skopeo
version=v0.0.0-test.1 number=0.0.0~test.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git rev-parse HEAD)
date=$(TZ=UTC git log -1 --format=%cd --date=format-local:%F)
first=$work/first second=$work/second

# elsewhere makes the release on another day. Go's programs do not use libc and see no other clock, so that a
# date of theirs is compared below.
elsewhere() {
	local clone="$work/a clone with a longer name"
	git clone -q --no-hardlinks . "$clone"
	find "$clone" -name .git -prune -o -exec touch -d 2001-01-01 {} +
	umask 077
	[ -n "$quick" ] || export GOCACHE=$work/gocache
	env TZ=Asia/Tokyo LC_ALL=C.UTF-8 LANG=de_DE.UTF-8 LD_PRELOAD="$faketime" FAKETIME=+400d "$clone/scripts/release.sh" "$version" "$second"
}

complete() {
	local arch
	for arch in amd64 arm64; do
		(cd "$first" && ls "stapsdt-$version-linux-$arch.tar.gz" "stapsdt_${number}_$arch.deb" libstapsdt{0,-dev}_*_"$arch".deb)
	done
	[ "$(find "$first" -type f | wc -l)" -eq 14 ]
	(cd "$first" && sha256sum --strict --check SHA256SUMS)
	[ "$(wc -l <"$first/SHA256SUMS")" -eq 13 ]
}

# unpacked unpacks the archive and the packages of each architecture.
unpacked() {
	local arch deb
	for arch in amd64 arm64; do
		mkdir -p "$work/$arch/archive" "$work/$arch/root"
		tar -xzf "$first/stapsdt-$version-linux-$arch.tar.gz" -C "$work/$arch/archive" --strip-components=1
		for deb in "$first"/*_"$arch".deb; do dpkg-deb -x "$deb" "$work/$arch/root"; done
		cmp "$work/$arch/archive/stapsdt" "$work/$arch/root/usr/bin/stapsdt"
	done
}

# runs ARCH COMMAND... runs a program of an architecture, with an emulator if it is not the host's.
runs() {
	local arch=$1
	shift
	case $(uname -m):$arch in
	x86_64:arm64) qemu-aarch64-static "$@" ;;
	aarch64:amd64) qemu-x86_64-static "$@" ;;
	*) "$@" ;;
	esac
}

# foreign unpacks the archives for other systems. Only Linux's have the unit.
foreign() {
	local arch
	for arch in amd64 arm64; do
		mkdir -p "$work/darwin-$arch"
		tar -xzf "$first/stapsdt-$version-darwin-$arch.tar.gz" -C "$work/darwin-$arch" --strip-components=1
		file "$work/darwin-$arch/stapsdt" | grep Mach-O
		[ -s "$work/darwin-$arch/man1/stapsdt-top.1" ]
		[ ! -e "$work/darwin-$arch/stapsdt.service" ]
	done
	unzip -q "$first/stapsdt-$version-windows-amd64.zip" -d "$work/windows"
	file "$work/windows/stapsdt-$version-windows-amd64/stapsdt.exe" | grep 'PE32+'
	grep -F mousetrap "$work/windows/stapsdt-$version-windows-amd64/LICENSES"
	grep -aqF "$commit" "$work/windows/stapsdt-$version-windows-amd64/stapsdt.exe"
}

# versions: --version tells the version, the commit and Go's.
versions() {
	local arch
	for arch in amd64 arm64; do
		[ "$(runs $arch "$work/$arch/root/usr/bin/stapsdt" --version)" = "stapsdt version $version (commit $commit, $(go env GOVERSION) linux/$arch)" ]
		file "$work/$arch/root/usr/bin/stapsdt" | grep 'statically linked'
	done
}

# installed installs the packages of the command in an empty root, as dpkg does, and removes them.
installed() {
	local root=$work/empty
	mkdir -p "$root/var/lib/dpkg/"{info,updates}
	touch "$root/var/lib/dpkg/status"
	local dpkg=(dpkg --root="$root" --force-not-root --log=/dev/null)
	"${dpkg[@]}" --install "$first/stapsdt_${number}_$(dpkg --print-architecture).deb"
	"${dpkg[@]}" --verify stapsdt
	"$root/usr/bin/stapsdt" --version | grep -F "$commit"
	"${dpkg[@]}" --purge stapsdt
	! find "$root/usr" -name '*stapsdt*' | grep .
}

# documented: the commands of docs/install.md that follow the downloads, for another directory than /usr/local.
documented() {
	cp -r "$first" "$work/downloads"
	mkdir -p "$work/local/bin"
	sed -n '/ sha256sum --check/,/man1\/\*$/s/^    [$#] //p' docs/install.md | sed "s|/usr/local|$work/local|" >"$work/commands"
	[ "$(wc -l <"$work/commands")" -eq 4 ]
	env -C "$work/downloads" version="$version" arch="$(dpkg --print-architecture)" bash -euo pipefail "$work/commands"
	"$work/local/bin/stapsdt" --version | grep -F "$commit"
	[ -s "$work/local/share/man/man1/stapsdt-trace.1" ]
}

# pages: each verb has a manual page of the day of the commit, about which mandoc has nothing to say.
pages() {
	local root=$work/amd64/root/usr/share/man
	gzip -d "$root"/man1/*.gz "$root"/man3/*.gz
	[ "$(find "$root/man1" -name 'stapsdt*.1' | wc -l)" -ge 12 ]
	diff -r "$root/man1" "$work/amd64/archive/man1"
	[ -z "$(mandoc -T lint -W warning "$root"/man?/*)" ]
	grep -Fx ".TH \"STAPSDT\" \"1\" \"$date\" \"stapsdt $version\" \"\"" "$root/man1/stapsdt.1"
}

# completions: each shell loads its file, and then knows the command.
completions() {
	local share=$work/amd64/root/usr/share
	bash --norc -euc '. "$1"; complete -p stapsdt' - "$share/bash-completion/completions/stapsdt"
	zsh -f -c 'autoload -Uz compinit; compinit -u -D; . "$1"; [[ $_comps[stapsdt] = _stapsdt ]]' - "$share/zsh/vendor-completions/_stapsdt"
	# shellcheck disable=SC2016 # it is fish that expands these
	XDG_CONFIG_HOME=$work/fish XDG_DATA_HOME=$work/fish fish --no-config -c '. $argv[1]; complete -c stapsdt | grep -q .' "$share/fish/vendor_completions.d/stapsdt.fish"
}

# licenses: each module that is linked is named in the texts, and has one.
licenses() {
	local module count=0
	for module in $(go version -m "$work/arm64/archive/stapsdt" | awk '$1 == "dep" && $2 !~ /go-stapsdt/ { print $2 }'); do
		grep -A 8 "^$module v" "$work/arm64/archive/LICENSES" | grep -qiE 'license|copyright'
		count=$((count + 1))
	done
	[ $count -gt 20 ]
}

clean() {
	local said
	said=$(lintian --allow-root --profile debian --fail-on none "$first"/stapsdt_*.deb)
	echo "$said"
	[ -z "$said" ]
}

# same_depends: what another architecture's package needs is what this one's needs, and it is of that architecture.
same_depends() {
	[ "$(dpkg-deb -f "$first"/libstapsdt0_*_amd64.deb Depends)" = "$(dpkg-deb -f "$first"/libstapsdt0_*_arm64.deb Depends)" ]
	readelf -h "$work/arm64/root/usr/lib/aarch64-linux-gnu/libstapsdt.so.0" | grep AArch64
	readelf -h "$work/amd64/root/usr/lib/x86_64-linux-gnu/libstapsdt.so.0" | grep X86-64
	readelf -sW "$work/arm64/root/usr/lib/aarch64-linux-gnu/libstapsdt.a" | grep -w providerInit
}

# image: skopeo finds the image of each architecture, which runs the released command as packaging/Dockerfile does.
image() {
	local arch archive=oci-archive:$first/stapsdt-$version-image.tar expected layer
	expected=$(python3 -c 'import json, re
text = open("packaging/Dockerfile").read()
print(re.search("^USER (.*)$", text, re.M)[1], *json.loads(re.search("^ENTRYPOINT (.*)$", text, re.M)[1]), *json.loads(re.search("^CMD (.*)$", text, re.M)[1]))')
	for arch in amd64 arm64; do
		skopeo --override-arch $arch copy -q "$archive" "dir:$work/image-$arch"
		skopeo inspect --config "dir:$work/image-$arch" | python3 -c 'import json, sys
image, (arch, version, commit, expected) = json.load(sys.stdin), sys.argv[1:]
config = image["config"]
labels = {k.rsplit(".", 1)[1]: v for k, v in config["Labels"].items()}
assert image["architecture"] == arch, image
assert " ".join([config["User"], *config["Entrypoint"], *config["Cmd"]]) == expected, config
assert (labels["title"], labels["version"], labels["revision"]) == ("stapsdt", version, commit), labels' $arch "$version" "$commit" "$expected"
		layer=$(skopeo inspect "dir:$work/image-$arch" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Layers"][0].split(":")[1])')
		mkdir "$work/layer-$arch"
		tar -xzf "$work/image-$arch/$layer" -C "$work/layer-$arch"
		cmp "$work/layer-$arch/stapsdt" "$work/$arch/archive/stapsdt"
		cmp "$work/layer-$arch/LICENSES" "$work/$arch/archive/LICENSES"
	done
}

# krew: its own code accepts the manifest, and installs the plugin from the archive.
krew() {
	local module=sigs.k8s.io/krew/cmd archive
	archive=stapsdt-$version-linux-$(dpkg --print-architecture).tar.gz
	GOBIN=$work/krew GOFLAGS='' go install $module/krew@v0.4.4 $module/validate-krew-manifest@v0.4.4
	"$work/krew/validate-krew-manifest" -manifest "$first/stapsdt.yaml" -skip-install
	[ "$(grep -cE "/$version/stapsdt-$version-(linux|darwin)-(amd64|arm64).tar.gz$" "$first/stapsdt.yaml")" -eq 4 ]
	export KREW_ROOT=$work/krew/root
	"$work/krew/krew" install --manifest="$first/stapsdt.yaml" --archive="$first/$archive"
	"$KREW_ROOT/bin/kubectl-stapsdt" --help | grep -F 'kubectl stapsdt'
}

# verify NAME FUNCTION is a check in which each command must succeed, which set -e does outside of
# conditions only.
verify() {
	local status
	set +e
	(set -e; "$2") >"$work/log" 2>&1
	status=$?
	set -e
	if [ $status -eq "$debian_fault" ] && [ "$failed" -eq 0 ]; then
		reported $status
	fi
	check "$1" reported $status
}
reported() { tail -n 40 "$work/log"; return "$1"; }

made() { scripts/release.sh "$version" "$first"; }
same() { diff -r "$first" "$second"; }

verify "make a release" made
verify "make it again: another place, day, umask, locale and time zone" elsewhere
verify "the same bytes" same
verify "complete, with checksums" complete
verify "unpack" unpacked
verify "the archives for macOS and Windows" foreign
verify "--version, on both architectures" versions
verify "dpkg installs, verifies and purges the command" installed
verify "docs/install.md" documented
verify "manual pages" pages
verify "completions of bash, zsh and fish" completions
verify "licenses of the linked modules" licenses
verify "the image" image
verify "krew installs the plugin" krew
verify "lintian" clean
verify "the C library for both architectures" same_depends
verdict

#!/bin/sh
# Cross-built for arm64, read by readelf, run by qemu. libelf for it comes from the folder
# ARM64_LIBELF, or from the distribution's packages, unpacked into out/arm64: the host's stay as they are.
suite=arm64
. "$(dirname "$0")/lib.sh"
root=$OUT/arm64
sysroot=${ARM64_LIBELF:-$root/sysroot}

# apt with a root of its own, for another architecture, from the archive in $archive.
fetch() {
	. /etc/os-release
	source="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $VERSION_CODENAME main"
	mkdir -p "$root/apt/etc/apt/apt.conf.d" "$root/apt/etc/apt/preferences.d" "$root/apt/var/lib/dpkg" \
		"$root/apt/var/lib/apt/lists/partial" "$root/apt/var/cache/apt/archives/partial" "$root/debs" || return
	: >"$root/apt/var/lib/dpkg/status"
	echo "deb $source" >"$root/apt/etc/apt/sources.list"
	set -- -o "Dir=$root/apt" -o "Dir::State::status=$root/apt/var/lib/dpkg/status" \
		-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
		-o Acquire::Languages=none
	apt-get -q "$@" update || return
	for package in libelf-dev libelf1 libelf1t64 zlib1g libzstd1; do
		[ -n "$(apt-cache "$@" show $package 2>/dev/null)" ] || continue
		(cd "$root/debs" && apt-get -q "$@" download $package) || return
	done
	for deb in "$root"/debs/*.deb; do
		dpkg-deb -x "$deb" "$root/sysroot.new" || return
	done
	mv "$root/sysroot.new" "$root/sysroot"
}

build() {
	make -s -j2 WERROR=1 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar SYSROOT="$sysroot" \
		OUT="$OUT/arm64/build" DEMO="$OUT/arm64/build/demo" all "$OUT/arm64/build/demo" tests
}

is_arm64() {
	aarch64-linux-gnu-readelf -h "$OUT/arm64/build/libstapsdt.so.0" | grep 'Machine: *AArch64' &&
		aarch64-linux-gnu-readelf -d "$OUT/arm64/build/libstapsdt.so.0" | grep 'SONAME.*\[libstapsdt.so.0\]'
}

emulate() {
	program=$1
	shift
	qemu-aarch64-static -L /usr/aarch64-linux-gnu \
		-E "LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu" "$program" "$@"
}

same_image() {
	emulate "$OUT/arm64/build/tests/dump" $1 app one:8:-4 two >"$log/emulated" &&
		"$OUT/tests/dump" $1 app one:8:-4 two | cmp - "$log/emulated"
}

have aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu libc6-dev-arm64-cross" "build" || exit 0
if [ ! -e "$sysroot/usr/include/libelf.h" ]; then
	have apt-get apt "libelf for arm64" || exit 0
	archive=$(apt-get indextargets --format '$(SITE) $(LABEL)' 'Created-By: Packages' |
		sed -n 's/ Debian$//p' | head -n 1)
	if [ -z "$archive" ]; then
		echo "# arm64 is left out: this host's archive is not Debian's; give a folder as ARM64_LIBELF"
		exit 0
	fi
	rm -rf "$root/apt" "$root/debs" "$root/sysroot.new"
	if ! fetch >"$log/fetch" 2>&1; then
		sed 's/^/# /' "$log/fetch"
		echo "skip $suite: libelf for arm64 cannot be fetched: give its folder as ARM64_LIBELF"
		exit 0
	fi
fi
check "build" build
check "readelf" is_arm64
have qemu-aarch64-static qemu-user-static "run" || exit 0
for program in define lifecycle fire alloc threads; do
	check "qemu: $program" emulate "$OUT/arm64/build/tests/$program"
done
check "the same image of arm64 from either" same_image "arm64 nop4"
check "the same image of amd64 from either" same_image "amd64 nop5"

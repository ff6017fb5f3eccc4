#!/bin/sh
# Tests of a cross-build for arm64, with readelf and qemu. libelf for arm64 comes from the directory
# ARM64_LIBELF, or from the distribution's packages, which are unpacked into out/arm64.
suite=arm64
. "$(dirname "$0")/lib.sh"
. ../scripts/lib/debian.sh
root=$OUT/arm64
sysroot=${ARM64_LIBELF:-$root/sysroot}

# fetch unpacks the distribution's libelf for arm64, and installs nothing.
fetch() {
	. /etc/os-release
	mkdir -p "$root/debs" || return
	for package in libelf-dev libelf1 libelf1t64 zlib1g libzstd1; do
		foreign_apt "$root/apt" "$VERSION_CODENAME" arm64 apt-cache show $package 2>/dev/null | grep -q . || continue
		(cd "$root/debs" && foreign_apt "$root/apt" "$VERSION_CODENAME" arm64 apt-get download $package) || return
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
	TEST_FLAVOR=qemu qemu-aarch64-static -L /usr/aarch64-linux-gnu \
		-E "LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu" "$program" "$@"
}

same_image() {
	emulate "$OUT/arm64/build/tests/dump" $1 app one:8:-4 two >"$log/emulated" &&
		"$OUT/tests/dump" $1 app one:8:-4 two | cmp - "$log/emulated"
}

have aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu libc6-dev-arm64-cross" "build" || exit 0
if [ ! -e "$sysroot/usr/include/libelf.h" ]; then
	have apt-get apt "libelf for arm64" || exit 0
	if ! debian_archive >"$log/archive" 2>&1; then
		sed 's/^/# /' "$log/archive"
		exit 0
	fi
	rm -rf "$root/apt" "$root/debs" "$root/sysroot.new"
	if ! fetch >"$log/fetch" 2>&1; then
		sed 's/^/# /' "$log/fetch"
		echo "# not run: $suite: libelf for arm64 cannot be fetched: give its directory as ARM64_LIBELF"
		exit 0
	fi
fi
check "build" build
check "readelf" is_arm64
have qemu-aarch64-static qemu-user-static "run" || exit 0
# The system calls are those of the kernel here, so that memory, locks of files, forks and sockets are what they are anywhere. The order of memory
# is that of this processor: on amd64, a barrier that arm64 needs is not missed. A thread cannot block all signals.
for program in define lifecycle fork fire alloc threads record recordcancel recordend recordfile recordfork recordtable recordway socket forkstorm; do
	check "qemu: $program" emulate "$OUT/arm64/build/tests/$program"
done
check "the same image of arm64 from either" same_image "arm64 nop4"
check "the same image of amd64 from either" same_image "amd64 nop5"

#!/usr/bin/env bash
# Runs the tests that need no tracer on every architecture that has probes,
# under qemu's user emulation:
#
#   scripts/architectures.sh [GOARCH...]
#
# 386 runs on an amd64 kernel only, as qemu's emulation of it cannot run Go.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

all=(amd64 arm64 riscv64 s390x ppc64le arm 386)
packages=(./internal/image ./internal/call ./internal/site ./internal/region)
root='^Test(Lifecycle|FireChecks|Word|Texts|TypedProbesDescribeTheirArguments|PatchedSiteIsEnabled|ValuesArrive|TextArrives)$'
host=$(go env GOHOSTARCH)

# emulator ARCH: sets exec to what runs its programs here.
emulator() {
	case $1 in
	amd64) exec=(-exec qemu-x86_64-static) ;;
	arm64) exec=(-exec qemu-aarch64-static) ;;
	386) exec=() ;;
	*) exec=(-exec "qemu-$1-static") ;;
	esac
}

# with_cgo COMMAND... runs it with cgo for arm64, with the libelf that the C library's
# tests have fetched.
sysroot=$PWD/cstapsdt/out/arm64/sysroot
with_cgo() {
	local lib=$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu
	GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc CGO_CFLAGS="-O2 -g -I$sysroot/usr/include" \
		CGO_LDFLAGS="-L${lib%%:*} -Wl,-rpath-link,$lib" \
		"$@" -exec "qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$lib"
}

need qemu-aarch64-static=qemu-user-static
passed=0 failed=0
for arch in "${@:-${all[@]}}"; do
	if [ "$arch" = "$host" ] || { [ "$arch" = 386 ] && [ "$host" != amd64 ]; }; then
		continue
	fi
	emulator "$arch"
	printf '%s\n' "$arch"
	if [ "$arch" = arm64 ] && [ -e "$sysroot/usr/include/libelf.h" ]; then
		printf '%s\n' "$arch, cgo"
		if with_cgo go test -run "$root" . && with_cgo go test -run 'TestImagesAreEqual|TestErrorsCross' ./cstapsdt; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
		fi
	fi
	if GOARCH=$arch CGO_ENABLED=0 go test ${exec[@]+"${exec[@]}"} "${packages[@]}" &&
		GOARCH=$arch CGO_ENABLED=0 go test ${exec[@]+"${exec[@]}"} -run "$root" .; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

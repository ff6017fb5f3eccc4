#!/usr/bin/env bash
# Runs the tests that need no tracer on every architecture that has probes, under qemu's
# user emulation.
#
#   scripts/lib/architectures.sh [GOARCH...]
#
# 386 runs only on an amd64 kernel, because qemu's emulation of 386 cannot run Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh

all=(amd64 arm64 riscv64 s390x ppc64le arm 386)
# The tests skip what cannot be emulated: see internal/testenv.
packages=(. ./internal/image ./internal/call ./internal/site ./internal/region ./internal/proc ./internal/recording ./internal/recording/recorder ./internal/wire ./proberec ./probesock)
host=$(go env GOHOSTARCH)

# emulator ARCH sets exec to the command that runs the architecture's programs here, and tells
# the tests about it.
emulator() {
	export STAPSDT_TEST_EMULATED="an emulator of $1"
	case $1 in
	amd64) exec=(-exec qemu-x86_64-static) ;;
	arm64) exec=(-exec qemu-aarch64-static) ;;
	386) exec=() STAPSDT_TEST_EMULATED= ;;
	*) exec=(-exec "qemu-$1-static") ;;
	esac
}

# with_cgo COMMAND... runs the command with cgo for arm64, with the libelf that the C
# library's tests have downloaded.
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
		if with_cgo go test -short . ./cstapsdt; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
		fi
	fi
	# Vet knows what is special of an architecture in assembly. The rest it sees on any.
	if GOARCH=$arch CGO_ENABLED=0 go vet -asmdecl ./internal/call ./internal/recording/barrier &&
		GOARCH=$arch CGO_ENABLED=0 go test -short -vet=off ${exec[@]+"${exec[@]}"} "${packages[@]}"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

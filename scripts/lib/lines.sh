#!/usr/bin/env bash
# Compares the variables at the lines of random programs on arm64, under qemu, with what the programs do without optimization
# (TestRandomVariables in internal/test/gofunctions). The programs are built here, and run there.
#
#   scripts/lib/lines.sh
#
# The kernel is kept in $STAPSDT_CACHE, by default ~/.cache/stapsdt. If it cannot be downloaded, the status is that of debian.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/debian_kernel.sh
. scripts/lib/guest.sh

name=arm64-6.12
need qemu-system-aarch64=qemu-system-arm cpio=cpio "$debian_keyring"=debian-archive-keyring >&2
cache=$(kernel_cache)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch_kernel $name "$cache"

# The test looks for programs beside it, and builds those for another architecture where there are none.
root=$work/root tests=./internal/test/gofunctions run='-test.run=^TestRandomVariables$'
test_guest "$root" arm64
mkdir "$root/programs"
CGO_ENABLED=0 go test -c -o "$work/tests" $tests
GOARCH=arm64 CGO_ENABLED=0 "$work/tests" "$run" -prebuilt "$root/programs" >&2
GOARCH=arm64 CGO_ENABLED=0 go test -c -trimpath -ldflags='-s -w' -o "$root/tests" $tests
initramfs "$root" >"$work/guest.cpio"

boot arm64 "$cache/kernel-$name" "$work/guest.cpio" 2048 3600 "$run" -prebuilt=/programs >"$work/console"
guest_passed "$work/console" || { cat "$work/console" >&2; exit 1; }
sed -n 's/.*_test\.go:[0-9]*: \(.* values are right\)/\1/p' "$work/console"

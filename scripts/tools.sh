#!/usr/bin/env bash
# Installs what the tests need in addition to Go: compilers, libelf, the tracers. It names the packages that could not be
# installed.
#
#   scripts/tools.sh          for scripts/test.sh
#   scripts/tools.sh --all    for scripts/long.sh, which needs emulators, servers, a browser and other languages too
set -euo pipefail
cd "$(dirname "$0")"
. lib/install.sh

need gcc=gcc clang=clang make=make pkg-config=pkg-config python3=python3 strace=strace \
	/usr/lib/python3/dist-packages/prometheus_client=python3-prometheus-client bpftrace=bpftrace tplist-bpfcc=bpfcc-tools "perf=linux-perf|linux-tools-$(uname -r)|linux-tools-generic" \
	eu-readelf=elfutils readelf=binutils llvm-dwarfdump=llvm file=file mandoc=mandoc unshare=util-linux curl=curl pgrep=procps tmux=tmux systemd-analyze=systemd pg_lsclusters=postgresql \
	/usr/include/libelf.h=libelf-dev /usr/include/"$(uname -m)"-linux-gnu/sys/sdt.h=systemtap-sdt-dev
[ "${1:-}" = --all ] || exit 0

need g++=g++ musl-gcc=musl-tools valgrind=valgrind gdb=gdb ip=iproute2 openssl=openssl /usr/include/bpf/usdt.bpf.h=libbpf-dev \
	aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross \
	qemu-aarch64-static=qemu-user-static qemu-system-x86_64=qemu-system-x86 qemu-system-aarch64=qemu-system-arm cpio=cpio \
	/usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring shellcheck=shellcheck \
	"chromium=chromium|chromium-browser" promtool=prometheus \
	perl=perl /usr/share/doc/libffi-platypus-perl=libffi-platypus-perl /usr/bin/ruby=ruby /usr/bin/php=php-cli node=nodejs npm=npm \
	javac=default-jdk-headless runsc=runsc
[ "$(uname -m)" != x86_64 ] || need wine=wine x86_64-w64-mingw32-gcc=gcc-mingw-w64-x86-64

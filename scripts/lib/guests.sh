#!/usr/bin/env bash
# Tries tracers that need the headers of the running kernel, such as bcc, or its modules. It boots
# Debian's kernels under qemu, each with the tracers of its release, runs the tests of
# internal/test/tracers there, and prints a table for each release.
#
#   scripts/lib/guests.sh [--write] [RELEASE...]
#
#   RELEASE    bookworm sid; all without one
#   --write    puts the tables into docs/measured/tracers.md if nothing failed
#
# Each release has a tree of about a gigabyte in $STAPSDT_CACHE, which is made again when it is a
# week old.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh
. scripts/lib/debian.sh
. scripts/lib/guest.sh
. scripts/lib/newest.sh
. scripts/lib/put_table.sh

if [ "${1:-}" = --inside ]; then
	mount_tree "$2"
	# shellcheck disable=SC2016 # the inner shell expands these
	exec chroot "$2" sh -ec '
		cd /usr/src/lttng-modules-*
		release=$(ls /lib/modules)
		make -s -j"$(nproc)" -C "/lib/modules/$release/build" M="$PWD" CONFIG_LTTNG=m modules >build.log 2>&1 || { cat build.log >&2; exit 1; }
		mkdir -p "/lib/modules/$release/extra"
		find . -name "*.ko" -exec cp -t "/lib/modules/$release/extra" {} +
		depmod "$release"'
fi

all="bookworm sid"
write=''
releases=()
for arg in "$@"; do
	case " $all " in *" $arg "*) releases+=("$arg"); continue ;; esac
	[ "$arg" = --write ] || { echo "usage: guests.sh [--write] [RELEASE...]" >&2; exit 2; }
	write=yes
done
if [ -n "$write" ] && [ ${#releases[@]} -gt 0 ]; then
	echo "guests.sh: --write needs all releases" >&2
	exit 2
fi
[ ${#releases[@]} -gt 0 ] || read -ra releases <<<"$all"
need qemu-system-x86_64=qemu-system-x86 cpio=cpio gcc=gcc make=make /usr/include/libelf.h=libelf-dev \
	"$debian_keyring"=debian-archive-keyring >&2
cache=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}/guests
mkdir -p "$cache"

# The essential packages, on which the others do not say that they depend, are among them.
packages=(bpfcc-tools trace-cmd linux-image-cloud-amd64 linux-headers-cloud-amd64 libc-bin coreutils dash grep sed)
# LTTng's modules, which are compiled here. Those of bookworm do not compile for its kernel.
lttng=(lttng-tools lttng-modules-dkms babeltrace2 kmod gcc make mawk findutils diffutils gzip perl-base)

# unpack RELEASE makes its tree.
unpack() {
	local tree=$cache/$1
	[ -z "$(find "$tree/complete" -mtime -7 2>/dev/null)" ] || return 0
	echo "Unpacking the tracers and the kernel of $1 to $tree" >&2
	case $1 in
	bookworm) foreign_tree "$tree.apt" "$1" amd64 "$tree" "${packages[@]}" ;;
	*) foreign_tree "$tree.apt" "$1" amd64 "$tree" "${packages[@]}" "${lttng[@]}" ;;
	esac || return
	[ -e "$tree/usr/bin/sh" ] || ln -s dash "$tree/usr/bin/sh" || return
	$sudo chroot "$tree" ldconfig || return
	[ "$1" = bookworm ] || build_modules "$tree" || return
	touch "$tree/complete"
}

# build_modules TREE builds LTTng's modules there, for the kernel there.
build_modules() {
	echo "Building LTTng's modules" >&2
	[ -e "$1/usr/bin/awk" ] || ln -s mawk "$1/usr/bin/awk" || return
	$sudo unshare --mount --propagation private scripts/lib/guests.sh --inside "$1"
}

# The programs bring the dynamic loader and the libraries of this system, whatever the guest has.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
programs=$root/programs
mkdir -p "$programs"
loader=$(readelf -l /bin/sh | sed -n 's/.*interpreter: \(.*\)]$/\1/p')
own="-Wl,--dynamic-linker=/programs/${loader##*/} -Wl,-rpath,/programs"
CGO_ENABLED=1 go build -trimpath -ldflags "-linkmode external -extldflags '$own'" -o "$programs/go-cgo" ./internal/test/tracers/subject
CGO_ENABLED=0 go build -trimpath -o "$programs/go-pure" ./internal/test/tracers/subject
make -s -C cstapsdt OUT="$work/c" DEMO="$programs/demo" LDFLAGS="$own" "$programs/demo"
cp -L "$loader" "$programs"
for name in go-cgo demo; do "$loader" --list "$programs/$name"; done | awk '$2 == "=>" { print $3 }' | sort -u |
	xargs -I FILE cp -L FILE "$programs"
CGO_ENABLED=0 go test -c -trimpath -ldflags='-s -w' -o "$root/init" ./internal/test/kernels
CGO_ENABLED=0 go test -c -trimpath -ldflags='-s -w' -o "$root/tests" ./internal/test/tracers
initramfs "$root" >"$work/programs.cpio"

# guest RELEASE boots its kernel, leaves the console in $work/console, and prints the table.
guest() {
	local tree=$cache/$1 kernels kernel
	unpack "$1" || return
	# Only what runs: no documentation, no compiler, and no modules of the kernel's own.
	(cd "$tree" && find . -path ./boot -prune -o -path './usr/share/doc*' -prune -o -path ./usr/share/locale -prune -o \
		-path ./usr/share/man -prune -o -path ./usr/lib/gcc -prune -o -path ./usr/libexec/gcc -prune -o -path './usr/src/lttng*' -prune -o \
		-path './usr/lib/modules/*/kernel' -prune -o -name vmlinuz -o -print | cpio -o -H newc -R 0:0 --quiet) >"$work/guest.cpio"
	cat "$work/programs.cpio" >>"$work/guest.cpio"
	kernels=("$tree"/usr/lib/modules/*/vmlinuz "$tree"/boot/vmlinuz-*)
	for kernel in "${kernels[@]}"; do [ ! -e "$kernel" ] || break; done
	boot amd64 "$kernel" "$work/guest.cpio" 3072 3000 "-test.run=^TestTracers$ -guest=$1 -programs=/programs -table=/tmp/table" |
		tee "$work/console" >&2
	grep -qx 'guest: passed' "$work/console" || return
	awk '/^Linux .* with the tracers of Debian/ { table = 1 } / not possible, for the reasons above; / { exit } table' "$work/console"
}

for release in "${releases[@]}"; do
	echo "Trying the tracers of $release" >&2
	guest "$release" >>"$work/table"
done
sed -i '${/^$/d}' "$work/table" # put_table adds one
cat "$work/table"
[ -z "$write" ] || put_table measured/tracers "$work/table" guests

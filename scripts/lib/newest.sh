# Makes a tree for chroot with the newest tracers, which are those of Debian sid; to be
# sourced, by bash, after debian.sh.
#
#   newest_tracers     makes the tree of about a gigabyte in $STAPSDT_CACHE, again when
#	it is a week old, and sets tree to its directory
#   mount_tracefs      mounts tracefs and debugfs here if they are not mounted
#   mount_tree TREE    mounts in the tree what tracers need; call it in a mount namespace
#	of its own

# unpack_newest TREE unpacks the tracers, with the headers of Debian's kernel in the place of
# those of the running one: a program that traces user space needs headers, but not those of
# its kernel.
unpack_newest() {
	local tree=$1 arch packages release common specific
	arch=$(dpkg --print-architecture)
	packages=(bpftrace bpfcc-tools linux-perf gdb binutils elfutils libbpf-dev systemtap dtrace coreutils "linux-headers-$arch")
	if [ -n "$(find "$tree/complete" -mtime -7 2>/dev/null)" ] && [ "$(cat "$tree/complete")" = "${packages[*]}" ]; then
		return
	fi
	echo "Unpacking Debian's newest tracers to $tree"
	foreign_tree "$tree.apt" sid "$arch" "$tree" "${packages[@]}" || return
	release=$tree/lib/modules/$(uname -r)
	common=("$tree"/usr/src/linux-headers-*-common)
	specific=("$tree"/usr/src/linux-headers-*-"$arch")
	mkdir -p "$release" &&
		ln -sfn "${common[0]#"$tree"}" "$release/source" &&
		ln -sfn "${specific[0]#"$tree"}" "$release/build" &&
		echo "${packages[*]}" >"$tree/complete"
}

newest_tracers() {
	tree=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}/tracers/sid
	mkdir -p "$(dirname "$tree")"
	# An old tree is better than none.
	local status=0
	unpack_newest "$tree" || status=$?
	[ $status -eq 0 ] || [ -e "$tree/complete" ] || return $status
}

mount_tracefs() {
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
}

# A tracer in the tree that traces by path must see the same files.
mount_tree() {
	local directory
	for directory in proc sys dev tmp run; do mkdir -p "$1/$directory"; done
	for directory in proc sys dev tmp; do mount --rbind "/$directory" "$1/$directory"; done
}

# Downloads kernels of Debian for guests; to be sourced after debian.sh, by bash.
#
#   suite_of NAME
#	prints the Debian release that has the kernel NAME, such as amd64-6.12
#   fetch_kernel NAME DIRECTORY
#	downloads the kernel, unless the directory has it, to DIRECTORY/kernel-NAME
#   kernel_cache
#	makes the directory in which kernels are kept, and prints its path

kernel_cache() {
	local cache=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}
	mkdir -p "$cache" && (cd "$cache" && pwd)
}

suite_of() {
	case ${1#*-} in
	5.10) echo bullseye ;;
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	*) echo sid ;; # which goes on to later kernels: the table says which it was
	esac
}

# kernel_package ROOT SUITE ARCH prints the name of the package with the newest kernel.
# In sid that is one that the image depends on.
kernel_package() {
	local package=linux-image-cloud-$3 next
	while next=$(foreign_apt "$@" apt-cache depends "$package" |
		awk '$1 == "Depends:" && $2 ~ /^linux-(image|binary)-[0-9]/ { print $2 }') && [ -n "$next" ]; do
		package=$next
	done
	echo "$package"
}

fetch_kernel() {
	local kernel=$2/kernel-$1 arch=${1%%-*} suite package new
	[ ! -e "$kernel" ] || return 0
	suite=$(suite_of "$1")
	package=$(kernel_package "$2/apt/$suite-$arch" "$suite" "$arch") || return
	echo "Downloading $package" >&2
	new=$(mktemp -d "$kernel.XXXXXX") || return
	(cd "$new" && foreign_apt "$2/apt/$suite-$arch" "$suite" "$arch" apt-get -qq download "$package") &&
		dpkg-deb --fsys-tarfile "$new"/*.deb | tar -x -C "$new" --wildcards --transform 's|.*/||' '*/vmlinuz*' &&
		mv "$new"/vmlinuz* "$kernel"
	local status=$?
	rm -rf "$new"
	return $status
}

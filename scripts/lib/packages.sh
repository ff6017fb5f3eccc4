# Builds Debian packages and the image; to be sourced.
#
#   library_packages ARCH DIRECTORY [SYSROOT DEPENDS]
#	builds libstapsdt0 and libstapsdt-dev in a new directory, from the sources in cstapsdt. For another
#	architecture than the host's, libelf is in SYSROOT, and DEPENDS are the packages of the libraries.
#   command_package ARCH VERSION TREE FILE
#	packs what is in TREE: the command, its manual pages and completions.
#   command_image VERSION COMMIT FILE ARCH=PROGRAM[,FILE...]...
#	makes the image that packaging/Dockerfile describes, of programs that are built.
#   krew_manifest VERSION DIRECTORY
#	makes the manifest of the plugin, with the checksums of the archives in the directory.

# Without what the compiler has left among the sources. An exported function that the symbols file
# does not have is an error, like one that is gone.
library_packages() (
	arch=$1 directory=$2
	source=$directory/libstapsdt-$(make -s -C cstapsdt version)
	mkdir -p "$source"
	cp -a cstapsdt/{Makefile,debian,recorder,socket,tests,*.awk,*.c,*.def,*.h,*.in,*.map} "$source"
	cd "$source" || exit
	export DPKG_GENSYMBOLS_CHECK_LEVEL=4
	if [ -z "${3:-}" ]; then
		dpkg-buildpackage -us -uc
	else
		# The packages that it needs are those of the other architecture, hence -d.
		SYSROOT=$3 SHLIBS_DEPENDS=$4 dpkg-buildpackage -us -uc -b -d -a "$arch"
	fi
)

command_package() (
	arch=$1 version=$2 tree=$3 file=$4
	mkdir "$tree/DEBIAN"
	cat >"$tree/DEBIAN/control" <<-END
		Package: stapsdt
		Version: $version
		Architecture: $arch
		Section: utils
		Priority: optional
		Maintainer: The stapsdt authors <stapsdt@users.noreply.github.com>
		Installed-Size: $(du -k --apparent-size -s "$tree/usr" | cut -f1)
		Homepage: https://github.com/go-stapsdt/stapsdt
		Description: list, trace and count the SDT (USDT) probes of any program
		 stapsdt attaches to the probes of running programs, prints their events, counts
		 them and draws histograms, and exports them as metrics and spans. It is a
		 static binary, which needs no compiler, no kernel headers and no debug
		 information.
	END
	(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
	dpkg-deb --root-owner-group -Zxz --build "$tree" "$file" >/dev/null
)

command_image() {
	local version=$1 commit=$2 file=$3
	shift 3
	python3 scripts/lib/image.py --dockerfile packaging/Dockerfile --label org.opencontainers.image.version="$version" \
		--label org.opencontainers.image.revision="$commit" "docker.io/library/stapsdt:$version" "$file" "$@"
}

krew_manifest() {
	local version=$1 directory=$2 system sum script=s/VERSION/$1/g
	for system in {linux,darwin}-{amd64,arm64}; do
		sum=$(sha256sum <"$directory/stapsdt-$version-$system.tar.gz")
		script+=";s/SHA256-$system\$/${sum%% *}/"
	done
	grep -v '^#' packaging/krew/stapsdt.yaml | sed "$script" >"$directory/stapsdt.yaml"
}

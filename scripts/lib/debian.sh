# Unpacks packages of another Debian suite or architecture, without changing those of the host
# and without root. To be sourced, by sh or bash.
#
#   foreign_apt ROOT SUITE ARCH apt-get|apt-cache ARG...
#	runs apt for that suite and architecture. Its state is in the directory
#	ROOT, which is created; its lists are renewed when they are a day old.
#   foreign_tree ROOT SUITE ARCH TREE PACKAGE...
#	unpacks the packages and their dependencies into a new directory TREE,
#	which exists afterwards only if nothing failed. It can be used for
#	chroot, but no package in it is configured.
#
# The archive is that of $DEBIAN_ARCHIVE or, if this is not set, the first Debian archive among
# the host's apt sources.

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# debian_archive prints the archive's address.
debian_archive() {
	if [ -n "${DEBIAN_ARCHIVE:-}" ]; then
		echo "$DEBIAN_ARCHIVE"
		return
	fi
	# The label is known where there are lists, as in an image there are not; a system that is Debian has its own.
	# shellcheck disable=SC2016 # it is apt that expands these
	{
		apt-get indextargets --format '$(SITE) $(LABEL)' 'Created-By: Packages'
		apt-get indextargets --no-release-info --format '$(SITE)' 'Created-By: Packages'
	} | awk -v id="$(. /etc/os-release && echo "$ID")" '
		!found && ($2 == "Debian" || NF == 1 && id == "debian" && $1 ~ /\/debian\/?$/) { print $1; found = 1 }
		END { exit !found }' && return
	echo "There is no Debian archive among apt's sources: set DEBIAN_ARCHIVE to the address of one" >&2
	return 1
}

# The functions' bodies are subshells, because the variables of sh are global.

foreign_apt() (
	mkdir -p "$1" && root=$(cd "$1" && pwd) || exit
	suite=$2 arch=$3 program=$4
	shift 4
	if [ -z "$(find "$root/updated" -mtime -1 2>/dev/null)" ]; then
		[ -e "$debian_keyring" ] || { echo "$debian_keyring is missing: install debian-archive-keyring" >&2; exit 1; }
		archive=$(debian_archive) || exit
		mkdir -p "$root/etc/apt/apt.conf.d" "$root/etc/apt/preferences.d" "$root/var/lib/dpkg" \
			"$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial" &&
			: >"$root/var/lib/dpkg/status" &&
			echo "deb [signed-by=$debian_keyring] $archive $suite main" >"$root/etc/apt/sources.list" || exit
		# It is read after the host's own, so that the host's proxy holds.
		cat >"$root/apt.conf" <<-END || exit
			Dir "$root";
			Dir::State::status "$root/var/lib/dpkg/status";
			APT::Architecture "$arch";
			APT::Architectures { "$arch"; };
			APT::Sandbox::User "root";
			Acquire::Languages "none";
		END
		apt-get -c "$root/apt.conf" -qq update || exit
		touch "$root/updated"
	fi
	"$program" -c "$root/apt.conf" -q "$@"
)

foreign_tree() (
	root=$1 suite=$2 arch=$3 tree=$4
	shift 4
	rm -rf "$tree.new" "$tree.debs"
	# As in Debian, /bin and the like are links: older packages have files there.
	mkdir -p "$tree.new" "$tree.debs/partial" && debs=$(cd "$tree.debs" && pwd) || exit
	for directory in bin sbin lib lib64; do
		mkdir -p "$tree.new/usr/$directory" && ln -s "usr/$directory" "$tree.new/$directory" || exit
	done
	foreign_apt "$root" "$suite" "$arch" apt-get -qq -y --no-install-recommends --download-only \
		-o "Dir::Cache::archives=$debs" install "$@" >/dev/null || exit
	for deb in "$debs"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$tree.new" || exit
	done
	rm -rf "$debs" "$tree"
	mv "$tree.new" "$tree"
)

# Packages of another Debian suite or architecture: the host's stay as they are,
# and root is not needed. To be sourced, by sh or bash.
#
#   foreign_apt ROOT SUITE ARCH apt-get|apt-cache ARG...
#	runs apt for that suite and architecture. Its state is in the folder
#	ROOT, which is made; its lists are renewed when they are a day old.
#   foreign_tree ROOT SUITE ARCH TREE PACKAGE...
#	unpacks the packages, and all that they depend on, into a new folder
#	TREE, which is there afterwards only if all went well. One can chroot
#	into it, but no package was configured.
#
# The archive is the first Debian one among the host's apt sources, or what
# DEBIAN_ARCHIVE says.

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
	echo "No Debian archive is among apt's sources: give the address of one as DEBIAN_ARCHIVE" >&2
	return 1
}

# The bodies are subshells, as the variables of sh are global.

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
	for folder in bin sbin lib lib64; do
		mkdir -p "$tree.new/usr/$folder" && ln -s "usr/$folder" "$tree.new/$folder" || exit
	done
	foreign_apt "$root" "$suite" "$arch" apt-get -qq -y --no-install-recommends --download-only \
		-o "Dir::Cache::archives=$debs" install "$@" >/dev/null || exit
	for deb in "$debs"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$tree.new" || exit
	done
	rm -rf "$debs" "$tree"
	mv "$tree.new" "$tree"
)

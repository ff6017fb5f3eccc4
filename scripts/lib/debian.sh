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
#
# The status is $debian_fault if there is no archive or its mirror does not serve something, or serves
# other files than Debian has signed. Then a line that begins with "not run:" says why: nothing is wrong
# with this repository, and nothing was tested. See scripts/long.sh.

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg
debian_fault=75

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
	echo "not run: there is no Debian archive among apt's sources: set DEBIAN_ARCHIVE to the address of one" >&2
	return $debian_fault
}

# The functions' bodies are subshells, because the variables of sh are global.

# fetching COMMAND... runs apt. The status is $debian_fault if apt could not fetch something.
fetching() (
	errors=$(mktemp) && trap 'rm -f "$errors"' EXIT || exit
	status=0
	LC_ALL=C "$@" 2>"$errors" || status=$?
	cat "$errors" >&2
	if [ $status -ne 0 ] && failure=$(grep -m 1 '^[EW]: Failed to fetch ' "$errors"); then
		echo "not run: the mirror: ${failure#*: }" >&2
		status=$debian_fault
	fi
	exit $status
)

# update_lists ROOT renews the lists. If that fails, those that there are will do.
update_lists() (
	status=0
	fetching apt-get -c "$1/apt.conf" -qq update 2>"$1/update.log" || status=$?
	if [ $status -eq 0 ]; then
		touch "$1/updated"
	elif [ -e "$1/updated" ]; then # apt keeps what it had
		echo "debian.sh: using the lists in $1 of $(date -r "$1/updated" +%F)" >&2
		status=0
	else
		cat "$1/update.log" >&2
	fi
	exit $status
)

foreign_apt() (
	mkdir -p "$1" && root=$(cd "$1" && pwd) || exit
	suite=$2 arch=$3 program=$4
	shift 4
	# Tests of several packages share a state.
	exec 9>"$root/lock" && flock 9 || exit
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
			Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
			Acquire::Retries "2";
			APT::Update::Error-Mode "any";
			Acquire::http::Timeout "15";
		END
		update_lists "$root" || exit
	fi
	# The archive may have replaced the package since.
	if [ "$program" = apt-get ] && [ -n "$(find "$root/updated" -mmin +10)" ]; then
		"$program" -c "$root/apt.conf" -q "$@" 2>/dev/null && exit
		update_lists "$root" || exit
	fi
	status=0
	fetching "$program" -c "$root/apt.conf" -q "$@" || status=$?
	if [ $status -ne 0 ] && [ $status -ne $debian_fault ] && [ "$program" = apt-get ] && [ -n "$(find "$root/updated" -mmin +10)" ]; then
		echo "not run: the mirror: the lists of $suite cannot be renewed" >&2
		status=$debian_fault
	fi
	exit $status
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

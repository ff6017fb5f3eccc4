#!/usr/bin/env bash
# Follows README's section "From a clone" on machines without a history: a minimal Debian with git, gcc and this machine's
# Go, no caches, and no package that the scripts do not install themselves. It downloads two such systems (140 MB each) and needs root.
#
#   scripts/lib/fresh.sh [CHECK...]
#
#   user       Debian 12, as a user who has neither root nor the tools: tests skip, and none fails
#   bookworm   Debian 12, as root
#   trixie     Debian 13, as root, and /tmp is a tmpfs, as it is there, in Fedora and in Arch
#   release    Debian 12, on which the files of a release are installed and used
#
# It takes what is committed. The last line says how many checks passed.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/debian.sh
. scripts/lib/debian.sh
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh

[ "$(id -u)" -eq 0 ] || { echo "fresh.sh: chroot needs root: try sudo" >&2; exit 1; }
need debootstrap=debootstrap "$debian_keyring=debian-archive-keyring" git=git unshare=util-linux
reported() { cat "$temp/checked"; return "$1"; }
archive=$(debian_archive)
temp=$(mktemp -d -p /var/tmp)

# leave ends what the machine DIRECTORY still runs, such as a server that a package has started.
leave() {
	local root
	for root in /proc/[0-9]*/root; do
		[[ $(readlink "$root") != "$1"* ]] || kill -KILL "$(basename "$(dirname "$root")")" 2>/dev/null || true
	done
}
trap 'leave "$temp"; rm -rf "$temp"' EXIT

# machine SUITE makes a machine, in the directory $machine.
machine() {
	machine=$temp/$1
	[ ! -e "$machine" ] || return 0
	debootstrap --variant=minbase --include=git,gcc,libc6-dev,ca-certificates "$1" "$machine" "$archive" >"$temp/log" 2>&1 ||
		{ tail -n 3 "$temp/log" >&2; echo "not run: debootstrap could not make $1" >&2; return "$debian_fault"; }
	# What this machine needs to reach the network is no leftover of earlier work.
	apt-config dump | grep -E '^Acquire::https?::Proxy' >"$machine/etc/apt/apt.conf.d/proxy" || true
	cp -L /etc/resolv.conf /etc/hosts "$machine/etc"
	cp -L /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs"
	mkdir -p "$machine/usr/local/go"
}

# What go needs to reach the network, too.
network=()
for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE; do network+=("$name=$(go env $name)"); done
for name in http_proxy https_proxy no_proxy; do [ -z "${!name:-}" ] || network+=("$name=${!name}"); done

# on DIRECTORY USER COMMAND... runs a command of bash on a machine, in the user's home directory. The file systems of the
# kernel are this machine's, as are its PIDs.
on() {
	local home=/home/$2
	[ "$2" != root ] || home=/root
	GOROOT=$(go env GOROOT) unshare --mount --propagation private bash -euo pipefail -c '
		mount --bind "$1" "$1"
		mount --bind "$GOROOT" "$1/usr/local/go"
		mount -t proc proc "$1/proc"
		mount --rbind /sys "$1/sys"
		mount --rbind /dev "$1/dev"
		[ ! -e "$1/tmpfs" ] || mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
		cd "$1"
		mkdir -p old
		pivot_root . old
		umount -l /old
		cd "$3"
		exec setpriv --reuid "$2" --regid "$2" --init-groups env -i "${@:5}" HOME="$3" \
			PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$4"
	' on "$1" "$2" "$home" "${*:3}" "${network[@]}" CI="$ci"
}

# commands prints those of README's section that follow the clone.
commands() { awk '/^## / { on = $0 == "## From a clone" } on && sub(/^    scripts\//, "scripts/")' README.md; }

# timed MACHINE USER COMMAND... runs a command in the user's clone, and prints how long it took.
timed() {
	local start=$SECONDS status=0
	on "$1" "$2" "cd stapsdt; ${*:3}" || status=$?
	printf '%5d s  %s, %s: %s\n' $((SECONDS - start)) "${1##*/}" "$2" "${*:3}" | tee -a "$temp/times"
	return $status
}

# clone MACHINE USER gives the user a clone.
clone() {
	rm -rf "$1/repository.git"
	git clone -q --bare . "$1/repository.git" # which stands for the address in README
	on "$1" root "chown -R $2: /repository.git"
	on "$1" "$2" "git clone -q /repository.git stapsdt"
}

# follow SUITE: root follows README, and nothing fails or is skipped for want of a tool.
follow() {
	local command ci=true
	machine "$1"
	clone "$machine" root
	while read -r -u 3 command; do timed "$machine" root "$command"; done 3< <(commands)
}

check_user() {
	local ci=false refused
	machine bookworm
	on "$machine" root "useradd --create-home reader"
	clone "$machine" reader
	refused=$(timed "$machine" reader scripts/demo.sh 2>&1) && return 1
	grep -F "Install these first: " <<<"$refused"
	timed "$machine" reader scripts/test.sh
}

check_bookworm() { follow bookworm; }

check_trixie() {
	machine trixie
	touch "$machine/tmpfs"
	follow trixie
}

# check_release makes the files of a release here, and the modules as a proxy of files.
check_release() {
	local ci=true version=v0.1.0
	scripts/release.sh "$version" "$temp/files"
	env -C internal/test go run ./proxy/publish "$PWD" "$temp/proxy"
	machine bookworm
	mv "$temp/files" "$temp/proxy" "$machine"
	clone "$machine" root
	on "$machine" root "stapsdt/scripts/lib/fresh_release.sh $version /files /proxy ~/stapsdt"
}

names=(user bookworm trixie release)
[ $# -gt 0 ] || set -- "${names[@]}"
for name; do
	[[ " ${names[*]} " == *" $name "* ]] || { echo "fresh.sh: unknown check $name; use one of: ${names[*]}" >&2; exit 2; }
done
[ "$(commands | wc -l)" -eq 2 ]
for name; do
	set +e # a condition would take set -e away from it
	(set -e; "check_$name") >"$temp/checked" 2>&1
	status=$?
	set -e
	[ $status -ne "$debian_fault" ] || { cat "$temp/checked"; exit "$debian_fault"; }
	check "$name" reported $status
done
[ ! -e "$temp/times" ] || cat "$temp/times"
verdict

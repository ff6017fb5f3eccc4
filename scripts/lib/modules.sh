#!/usr/bin/env bash
# Downloads the Go modules that building and testing this repository takes: as the workspace resolves them, and as the users of
# each module do, for whom other versions are selected. Where go.mod asks for a later Go, that is downloaded too. Afterwards
# scripts/test.sh sets GOPROXY=off, so that a module which is missing here fails the gate, which names it.
#
#   scripts/lib/modules.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

modules=$(go list -m -f '{{.Path}} {{.Dir}}')

# Not go mod download, which fetches all that is in the module graph (a gigabyte) and adds its sums to go.work.sum.
packages=()
while read -r path _; do packages+=("$path/..."); done <<<"$modules"
for cgo in 1 0; do CGO_ENABLED=$cgo persistently go list -deps -test "${packages[@]}" >/dev/null; done
for system in darwin windows; do GOOS=$system persistently go list -deps "${packages[@]}" >/dev/null; done # the harnesses are for Linux

# as_users_do MODULE DIRECTORY downloads what a module needs without the workspace. Our own modules, which may not be
# published yet, are those here.
as_users_do() {
	local file=$temp/$1/go.mod path directory
	mkdir -p "$temp/$1"
	cp "$2/go.mod" "$file"
	[ ! -e "$2/go.sum" ] || cp "$2/go.sum" "$temp/$1"
	while read -r path directory; do
		[ "$path" = "$1" ] || go mod edit -replace "$path=$directory" "$file"
	done <<<"$modules"
	GOWORK=off persistently go mod download -C "$2" -modfile "$file"
}
while read -r path directory; do as_users_do "$path" "$directory"; done <<<"$modules"

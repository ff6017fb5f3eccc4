#!/usr/bin/env bash
# Fires under a tracer in every way that could lose an event, in both builds, and compares the
# events that the program fired with those that the tracer saw.
#
#   scripts/lib/soak.sh [SECONDS [WITHIN]]
#
# The phases of both builds take SECONDS, 120 by default. In this time each build makes ten million fires
# from two threads, and has 2,250 providers, each attached to, unloaded, loaded and detached from under fire.
# A busy machine may take longer: each build ends after WITHIN (10m), by default SECONDS, whether or not it
# has done all of that. The script needs root and Linux 6.6.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh

seconds=${1:-120}
[[ $seconds =~ ^[0-9]+$ && $seconds -gt 0 ]] || { echo "usage: scripts/lib/soak.sh [SECONDS [WITHIN]]" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "The soak test attaches tracers: run it as root." >&2; exit 2; }
need gcc=gcc make=make pkg-config=pkg-config /usr/include/libelf.h=libelf-dev
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for cgo in 1 0; do
	CGO_ENABLED=$cgo go test -c -o "$dir/soak$cgo" ./internal/test/soak
done
status=0
for cgo in 1 0; do
	echo "CGO_ENABLED=$cgo"
	CI=true "$dir/soak$cgo" -test.v -test.timeout 60m -scale "$(awk "BEGIN { print $seconds / 120 }")" -within "${2:-${seconds}s}" || status=1
done
exit $status

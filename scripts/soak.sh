#!/usr/bin/env bash
# Fires under a tracer in every way that could lose a fire, in both builds, and
# compares what the program has fired with what the tracer has seen.
#
#   scripts/soak.sh [SECONDS [WITHIN]]
#
# The phases share the time, 120 seconds by default: then it is, in each build,
# ten million fires of two threads, with strings and without, 500 cycles of attach
# and detach, 1,000 of unload and load, and 1,000 providers. A busy machine may
# not do all of that; then give it more time (10m) for the same work. It needs root
# and Linux 6.6. The last line says how many phases passed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

seconds=${1:-120}
[[ $seconds =~ ^[0-9]+$ && $seconds -gt 0 ]] || { echo "usage: scripts/soak.sh [SECONDS [WITHIN]]" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "The soak test attaches tracers: run it as root." >&2; exit 2; }
need gcc=gcc make=make pkg-config=pkg-config /usr/include/libelf.h=libelf-dev
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for cgo in 1 0; do
	(cd internal/systest && CGO_ENABLED=$cgo go build -o "$dir/soak$cgo" ./soak)
done
"$dir/soak0" -seconds "$seconds" -within "${2:-${seconds}s}" cgo="$dir/soak1" go="$dir/soak0"

#!/usr/bin/env bash
# Makes the tables in docs again, on this machine, and puts each into its page when all
# is well.
#
#   scripts/tables.sh [cost | tracers | kernels | lockdown]...      all of them without a name
#
# It needs root. What is downloaded is kept in $STAPSDT_CACHE, by default
# ~/.cache/stapsdt (about 3 GB).
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- cost tracers kernels lockdown
for table; do
	case $table in
	cost) scripts/bench.sh --write ;;
	tracers)
		scripts/lib/tracers.sh --write
		scripts/lib/guests.sh --write
		scripts/lib/systemtap.sh --write
		;;
	kernels) scripts/lib/kernels.sh --write ;;
	lockdown) scripts/lib/lockdown.sh --write ;;
	*)
		echo "usage: scripts/tables.sh [cost | tracers | kernels | lockdown]..." >&2
		exit 2
		;;
	esac
done

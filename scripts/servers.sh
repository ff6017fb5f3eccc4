#!/usr/bin/env bash
# Measures what services pay for being watched: servers that others wrote, built from the module proxy, loaded by clients
# that others wrote. Each runs in turn without probes, with probes in all ways, and with OpenTelemetry and log/slog.
# Prints tables in Markdown. It needs root.
#
#   scripts/servers.sh [--quick] [--write] [--rounds=N] [--seconds=N] [--only=REGEXP]
#
#   --quick          measures one round of a second
#   --write          also writes docs/measured/services.md, and the table of docs/cost.md
#   --rounds=N       measures N rounds; the default is 12, which take 25 minutes
#   --seconds=N      loads each server for N seconds in each way and round; the default is 2
#   --only=REGEXP    measures only servers whose names match
#
# It fails if a consumer has not seen every event. The servers are a module that is not part of the workspace, and only this
# script downloads what it requires: 200 modules, which take 1.1 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/put_table.sh
. scripts/lib/put_table.sh

write='' arguments=()
for option in "$@"; do
	case $option in
	--quick) arguments+=(--rounds=1 --seconds=1) ;;
	--write) write=yes ;;
	--rounds=* | --seconds=* | --only=*) arguments+=("$option") ;;
	*)
		sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
		exit 2
		;;
	esac
done

need wrk=wrk redis-benchmark=redis-tools setpriv=util-linux
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb=postgresql
command -v go >/dev/null || { echo "Install Go 1.26 or later first: https://go.dev/dl" >&2; exit 1; }
bin=$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | tail -n 1)")

# The programs, logs, recordings and the database are in memory: disks are not measured.
if findmnt -no OPTIONS -T /dev/shm | grep -qw noexec; then
	echo "It needs /dev/shm mounted without noexec, with 4 GB: mount -o remount,exec,size=4G /dev/shm" >&2
	exit 1
fi
work=$(mktemp -d -p /dev/shm)
chmod 711 "$work"
ended() {
	[ ! -e "$work/data/postmaster.pid" ] || database pg_ctl -D "$work/data" -m immediate -s stop
	$sudo rm -rf "$work"
}
trap ended EXIT

# database COMMAND... runs a program of PostgreSQL, as the user postgres in place of root, who may not.
database() {
	local as=()
	[ "$(id -u)" -ne 0 ] || as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
	LC_ALL=C HOME=$work "${as[@]}" "$bin/$1" "${@:2}"
}

export CGO_ENABLED=0
go build -o "$work/stapsdt" ./cmd/stapsdt
cd internal/test/servers
export GOWORK=off
persistently go build -o "$work/" ./bench ./caddy ./sql ./redis github.com/nats-io/nats-server/v2 github.com/nats-io/natscli/nats
versions=$(go list -m -f '{{.Path}} {{.Version}}' github.com/{caddyserver/caddy/v2,jackc/pgx/v5,alicebob/miniredis/v2,nats-io/nats-server/v2,nats-io/natscli} \
	github.com/XSAM/otelsql go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp |
	sed 's|/v[0-9]* | |; s|.*/||' | paste -sd , | sed 's/,/, /g')
cd - >/dev/null

mkdir "$work/data" "$work/socket"
[ "$(id -u)" -ne 0 ] || chown postgres "$work/data" "$work/socket"
database initdb -D "$work/data" -U postgres --auth=trust --no-sync --encoding=UTF8 >/dev/null
database pg_ctl -D "$work/data" -l "$work/data/log" -s -w start -o "-k $work/socket -c listen_addresses= -c fsync=off \
	-c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c shared_buffers=512MB -c max_wal_size=2GB -c checkpoint_timeout=1d"
database pgbench -h "$work/socket" -U postgres -i -q -s 10 postgres 2>/dev/null

{
	printf '# Measured by scripts/servers.sh\n\n[What it means](../cost.md#a-service). A ratio whose quartiles are more than a tenth of it apart is left out.\n\n'
	echo "Linux $(uname -r | cut -d - -f 1), $(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(go env GOVERSION | sed 's/go/Go /')," \
		"$versions, PostgreSQL $(database postgres --version | grep -o '[0-9.]*' | head -n 1), $(redis-benchmark --version), $(wrk -v | grep -o '^wrk [^ ]*')."
	$sudo "$work/bench" -work "$work" -postgres "host=$work/socket user=postgres dbname=postgres sslmode=disable" -summary "$work/summary" "${arguments[@]}"
} | sed '$d' | tee "$work/tables"
if [ -n "$write" ]; then
	cp "$work/tables" docs/measured/services.md
	put_table cost "$work/summary" services
fi

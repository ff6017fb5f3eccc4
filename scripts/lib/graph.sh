#!/usr/bin/env bash
# Makes docs/fleet.png, the picture in docs/fleet.md: the page of a Prometheus that asks
# `stapsdt export`, while examples/http serves requests. It needs root, and takes two minutes.
#
#   scripts/lib/graph.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh

need prometheus=prometheus chromium=chromium curl=curl >&2
work=$(mktemp -d)
started=()
finish() {
	[ ${#started[@]} -eq 0 ] || kill "${started[@]}" 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap finish EXIT

go build -trimpath -ldflags='-s -w' -o "$work/stapsdt" ./cmd/stapsdt
go build -C examples/http -o "$work/shop" .

cat >"$work/rules.yaml" <<'RULES'
metrics:
  - name: shop_request_seconds
    help: Time to serve a request.
    probe: shop:request__end
    histogram: nanoseconds
    unit: seconds
    by: [route, status]
RULES

# begins NAME COMMAND... starts a server, whose output is in the file NAME.
begins() {
	local log=$work/$1
	shift
	"$@" >"$log" 2>&1 &
	started+=($!)
}

# says NAME PATTERN waits for what a server prints, and prints the part in the group.
says() {
	local tries found
	for tries in {1..300}; do
		found=$(sed -nE "s#.*$2.*#\\1#p" "$work/$1" | head -n 1)
		[ -z "$found" ] || { echo "$found"; return; }
		sleep 0.1
	done
	echo "$1 has not printed $2 after $tries tries" >&2
	return 1
}

begins shop.log env STAPSDT_DIR="$work/images" "$work/shop" -listen localhost:0 -db "$work/shop.db"
shop=$(says shop.log 'serves (http://.*)')
begins export.log "$work/stapsdt" export -c "$work/rules.yaml" --listen localhost:0
metrics=$(says export.log 'http://([^ ]*)/metrics')
cat >"$work/prometheus.yml" <<CONFIG
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: stapsdt
    static_configs: [{targets: ["$metrics"]}]
CONFIG
page=http://localhost:9464
begins prometheus.log prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="${page#http://}"
says prometheus.log '(Server is ready)' >/dev/null

curl -sS -X POST "$shop/items?name=pear" >/dev/null
for second in {1..75}; do
	curl -sS "$shop/items/1?n=[1-$((20 + second % 25 * 3))]" "$shop/items?n=[1-$((30 - second % 13))]" "$shop/items/none?n=[1-$((5 + second % 7))]" >/dev/null
	sleep 0.8
done

query='sum%20by%20(route%2C%20status)%20(rate(shop_request_seconds_count%5B5s%5D))'
timeout 60 chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,840 --virtual-time-budget=8000 \
	--screenshot="$work/fleet.png" "$page/classic/graph?g0.range_input=65s&g0.tab=0&g0.expr=$query" 2>/dev/null
install -m 644 "$work/fleet.png" docs/fleet.png

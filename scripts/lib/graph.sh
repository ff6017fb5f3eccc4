#!/usr/bin/env bash
# Makes docs/fleet.png, the picture in docs/fleet.md: the page of a Prometheus that asks
# `stapsdt export`, while examples/http serves requests. It needs root, and takes two minutes.
#
#   scripts/lib/graph.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh

need prometheus=prometheus chromium=chromium curl=curl >&2
# shellcheck source=scripts/lib/background.sh
. scripts/lib/background.sh

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

# serve PATTERN COMMAND... starts a server, and sets found to the part of what it prints that is
# in the pattern's group.
serve() {
	local pattern=$1
	shift
	start "$@"
	eventually grep -Eq "$pattern" "$work/out" || { cat "$work/out" >&2; return 1; }
	found=$(sed -nE "s#.*$pattern.*#\\1#p" "$work/out" | head -n 1)
}

serve 'serves (http://.*)' env STAPSDT_DIR="$work/images" "$work/shop" -listen localhost:0 -db "$work/shop.db"
shop=$found
serve 'http://([^ ]*)/metrics' "$work/stapsdt" export -c "$work/rules.yaml" --listen localhost:0
metrics=$found
cat >"$work/prometheus.yml" <<CONFIG
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: stapsdt
    static_configs: [{targets: ["$metrics"]}]
CONFIG
page=http://localhost:9464
serve '(Server is ready)' prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="${page#http://}"

curl -sS -X POST "$shop/items?name=pear" >/dev/null
for second in {1..75}; do
	curl -sS "$shop/items/1?n=[1-$((20 + second % 25 * 3))]" "$shop/items?n=[1-$((30 - second % 13))]" "$shop/items/none?n=[1-$((5 + second % 7))]" >/dev/null
	sleep 0.8
done

query='sum%20by%20(route%2C%20status)%20(rate(shop_request_seconds_count%5B5s%5D))'
timeout 60 chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,840 --virtual-time-budget=8000 \
	--screenshot="$work/fleet.png" "$page/classic/graph?g0.range_input=65s&g0.tab=0&g0.expr=$query" 2>/dev/null
install -m 644 "$work/fleet.png" docs/fleet.png

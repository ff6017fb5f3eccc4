#!/usr/bin/env bash
# Makes docs/command.svg, the picture in README.md: a terminal in which the command traces
# examples/http, while it serves requests. It needs root.
#
#   scripts/lib/picture.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib/install.sh

need tmux=tmux curl=curl >&2
work=$(mktemp -d)
columns=120
shop=
terminal() { tmux -L "stapsdt-$$" -f /dev/null "$@"; }
finish() {
	terminal kill-server 2>/dev/null || true
	[ -z "$shop" ] || kill "$shop" || true
	rm -rf "$work"
}
trap finish EXIT

go build -trimpath -ldflags='-s -w' -o "$work/stapsdt" ./cmd/stapsdt
go build -C examples/http -o "$work/shop" .
STAPSDT_DIR=$work/images "$work/shop" -listen localhost:0 -db "$work/shop.db" >"$work/log" &
shop=$!

# until_true COMMAND... waits until the command succeeds.
until_true() {
	local tries
	for tries in {1..600}; do
		! "$@" || return 0
		sleep 0.1
	done
	echo "not after $tries tries: $*" >&2
	return 1
}
until_true grep -q 'serves http' "$work/log"
url=$(sed -n 's/.*serves //p' "$work/log")

# types COMMAND types a command into the terminal.
types() { terminal send-keys -l -- "$1" && terminal send-keys Enter; }
traced() { "$work/stapsdt" list -p "$shop" | grep -q 'traced now'; }
idle() { [ "$(terminal capture-pane -p | grep -v '^$' | tail -n 1)" = "#" ]; }
requests() { curl -sS "$@" >/dev/null; }

terminal new-session -d -x $columns -y 50 "stty -echoctl; env PATH=$work:$PATH PS1='# ' PS2='      ' bash --norc --noprofile -i"
until_true idle
types "stapsdt trace -p $shop shop:request__end --show path,status,nanoseconds -n 4 \\"
types "-w 'status >= 400 || nanoseconds > 5*time.Millisecond'"
until_true traced
requests "$url/items/1" "$url/supplier?ms=20" "$url/items/none" "$url/items/1" "$url/supplier?ms=7" "$url/nothing"
until_true idle
types "stapsdt hist -p $shop shop:request__end nanoseconds -w 'route == \"GET /items/{id}\"'"
until_true traced
requests "$url/items/1?n=[1-400]"
terminal send-keys C-c
until_true idle

# Each line of the terminal becomes one of text, whose parts have the styles that were set.
terminal capture-pane -p -e | awk -v columns=$columns '
	BEGIN {
		style["1"] = "font-weight=\"bold\""
		style["2"] = "fill=\"#8b949e\""
		style["36"] = "fill=\"#39c5cf\""
	}
	function escaped(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); return s }
	function part(s) {
		if (s == "") return
		text = text (set == "" ? escaped(s) : "<tspan " set ">" escaped(s) "</tspan>")
	}
	{ lines[NR] = $0; if ($0 != "" && $0 != "#") last = NR }
	END {
		printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", columns * 7.83 + 24, last * 18 + 20
		print "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace\" font-size=\"13\" fill=\"#e6edf3\">"
		print "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#0d1117\"/>"
		for (n = 1; n <= last; n++) {
			text = ""
			rest = lines[n]
			while (match(rest, /\033\[[0-9;]*m/)) {
				part(substr(rest, 1, RSTART - 1))
				code = substr(rest, RSTART + 2, RLENGTH - 3)
				rest = substr(rest, RSTART + RLENGTH)
				set = code in style ? style[code] : ""
			}
			part(rest)
			if (text != "") printf "<text x=\"12\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", n * 18 + 6, text
		}
		print "</svg>"
	}' >"$work/command.svg"
install -m 644 "$work/command.svg" docs/command.svg

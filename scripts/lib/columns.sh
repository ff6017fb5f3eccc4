#!/usr/bin/env bash
# Fails if a line of product has more than 100 columns, a tab being four. Text in quotation marks does not count, because a
# message is easier to find when it is not broken.
set -euo pipefail
cd "$(dirname "$0")/../.."

git rev-parse --git-dir >/dev/null 2>&1 || { echo "This is no clone."; [ "${CI:-}" != true ]; exit; }
scripts/count.sh --files product | xargs grep -LE '^// Code generated .* DO NOT EDIT\.$' | xargs awk '
	FNR == 1 { quoted = 0 }
	{
		text = $0
		gsub(/\t/, "    ", text)
		if (quoted) { # by a backtick of an earlier line
			if (text !~ /`/) next
			sub(/^[^`]*`/, "", text)
			quoted = 0
		}
		gsub(/"([^"\\]|\\.)*"|`[^`]*`/, "\"\"", text)
		if (FILENAME ~ /\.go$/ && text !~ /^ *\/\// && match(text, /`/)) {
			quoted = 1
			text = substr(text, 1, RSTART)
		}
		if (length(text) > 100) { printf "%s:%d: %d columns: %s\n", FILENAME, FNR, length(text), $0; long++ }
	}
	END { exit long > 0 }'

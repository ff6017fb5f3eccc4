#!/usr/bin/env bash
# Fails if a line of product that is new or changed has more than 100 columns, a tab being four. Text in quotation marks does not
# count, because a message is easier to find when it is not broken. Older lines count once they are changed.
set -euo pipefail
cd "$(dirname "$0")/../.."

since=addc24a35fc05d5bfcb84f821fc82a8c4ae6d7ab
git rev-parse --git-dir >/dev/null 2>&1 || { echo "This is no clone."; [ "${CI:-}" != true ]; exit; }
# A shallow clone knows no older lines than those of its first commit.
git cat-file -e "$since^{commit}" 2>/dev/null || since=$(git rev-list HEAD | tail -n 1)
mapfile -t written < <(scripts/count.sh --files product | xargs grep -LE '^// Code generated .* DO NOT EDIT\.$')
git diff -U0 --no-color --no-ext-diff --find-renames "$since" | awk -v product="${written[*]}" '
	BEGIN { for (n = split(product, files); n > 0; n--) counts[files[n]] = 1 }
	/^\+\+\+ / { file = substr($0, 7); next }
	/^@@ / { split($3, at, /[+,]/); line = at[2]; next }
	/^\+/ && file in counts {
		text = substr($0, 2)
		gsub(/\t/, "    ", text)
		whole = text
		gsub(/"([^"\\]|\\.)*"|`[^`]*`/, "\"\"", text)
		if (length(text) > 100) { printf "%s:%d: %d columns: %s\n", file, line, length(text), whole; long++ }
	}
	/^\+/ { line++ }
	END { exit long > 0 }'

#!/usr/bin/env bash
# Counts the lines of product and of tests, and the words of documents, by room.
#
#   scripts/count.sh               prints the sums
#   scripts/count.sh -v            prints the lines of each directory too
#   scripts/count.sh --files KIND  lists the files that are counted as product, tests, words, scripts or examples
#
# Lines are those of files that are written by hand, with their comments and blank lines; words are those of the documents of the root and of
# docs/. Programs in examples/ and scripts are counted on their own.
set -euo pipefail
cd "$(dirname "$0")/.."

# kinds prints the kind and the path of each file.
kinds() {
	git ls-files | awk '
		/(^|\/)testdata\// || /(^|\/)go\.(mod|sum|work|work\.sum)$/ { next }
		/^(docs\/)?[^\/]*\.md$/ { print "words", $0; next }
		/\.md$/ { next }
		/^scripts\// || /^\.ci\// || /^\.github\// { if (/\.(sh|py|go|yml)$/ || /\.ci\/run$/) print "scripts", $0; next }
		/^examples\// { if (/\.(go|c|h|lua|js|py|html)$/) print "examples", $0; next }
		!/\.(go|c|h|s|S|def|py|rb|pl|pm|php|js|html|css|java|awk)$/ { next }
		/_test\.go$/ || /^internal\/test\// || /^cstapsdt\/tests\// || /(^|\/)(test|tests|t|[a-z]+test|testenv|sparse)\// && !/^probetest\// { print "tests", $0; next }
		{ print "product", $0 }' | sort -u
}

if [ "${1:-}" = --files ]; then
	kinds | sed -n "s/^$2 //p"
	exit
fi

kinds | awk -v verbose="${1:-}" '
	{
		kind = $1; file = $2; n = 0; generated = 0
		while ((getline line < file) > 0) {
			if (n < 5 && line ~ /Code generated .* DO NOT EDIT/) generated = 1
			if (kind == "words") for (i = split(line, parts); i > 0; i--) words[kind] += parts[i] ~ /[[:alnum:]]/
			n++
		}
		close(file)
		if (generated) next
		if (kind == "words") next
		sum[kind] += n
		dir = file; if (!sub(/\/[^\/]*$/, "", dir)) dir = "."
		rooms[kind "\t" dir] += n
	}
	END {
		sum["words"] = words["words"]
		if (verbose == "-v") for (room in rooms) printf "%7d  %s\n", rooms[room], room | "sort -rn"
		close("sort -rn")
		split("product tests words scripts examples", kinds, " ")
		for (i = 1; i <= 5; i++) printf "%-9s %7d\n", kinds[i], sum[kinds[i]]
	}'

# Puts a table into its page in docs/; to be sourced.
#
#   put_table NAME FILE     into docs/NAME.md, between the lines <!-- NAME --> and <!-- /NAME -->

put_table() {
	local new page=docs/$1.md
	new=$(mktemp)
	if awk -v mark="$1" -v table="$2" '
		$0 == "<!-- /" mark " -->" { inside = 0 }
		!inside { print }
		$0 == "<!-- " mark " -->" { inside = 1; found++; print ""; while ((getline row < table) > 0) print row; print "" }
		END { exit found != 1 || inside }' "$page" >"$new"; then
		cat "$new" >"$page"
		rm "$new"
	else
		rm "$new"
		echo "$page needs one place for the table, between <!-- $1 --> and <!-- /$1 -->" >&2
		return 1
	fi
}

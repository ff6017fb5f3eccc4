# Puts a table into its page in docs/; to be sourced.
#
#   put_table NAME FILE [MARK]     into docs/NAME.md, between the lines <!-- MARK --> and
#	<!-- /MARK -->, for which MARK is the last part of NAME if it is not given

put_table() {
	local new page=docs/$1.md mark=${3:-${1##*/}}
	new=$(mktemp)
	if awk -v mark="$mark" -v table="$2" '
		$0 == "<!-- /" mark " -->" { inside = 0 }
		!inside { print }
		$0 == "<!-- " mark " -->" { inside = 1; found++; print ""; while ((getline row < table) > 0) print row; print "" }
		END { exit found != 1 || inside }' "$page" >"$new"; then
		cat "$new" >"$page"
		rm "$new"
	else
		rm "$new"
		echo "$page needs one place for the table, between <!-- $mark --> and <!-- /$mark -->" >&2
		return 1
	fi
}

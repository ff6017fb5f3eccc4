# Puts a table into README.md; to be sourced.
#
#   readme_table NAME FILE     between the lines <!-- NAME --> and <!-- /NAME -->

readme_table() {
	local new
	new=$(mktemp)
	if awk -v mark="$1" -v table="$2" '
		$0 == "<!-- /" mark " -->" { inside = 0 }
		!inside { print }
		$0 == "<!-- " mark " -->" { inside = 1; found++; print ""; while ((getline row < table) > 0) print row; print "" }
		END { exit found != 1 || inside }' README.md >"$new"; then
		cat "$new" >README.md
		rm "$new"
	else
		rm "$new"
		echo "README.md needs one place for the table, between <!-- $1 --> and <!-- /$1 -->" >&2
		return 1
	fi
}

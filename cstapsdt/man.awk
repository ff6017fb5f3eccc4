# The manual page of the C library, made from the comments in its header:
#
#	awk -v version=0.1.3 -v date=2026-11-29 -f man.awk libstapsdt.h >libstapsdt.3
#
# The first comment is the description. If one of its paragraphs begins with a word
# and a period, the word is the title of a section. Lines that are indented by a
# tab are shown as they are. Each later comment describes the declaration after it.

function escape(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	return no_request(s)
}

# no_request keeps a line from being read as a request of the formatter.
function no_request(s) {
	sub(/^[.']/, "\\\\\\&&", s)
	return s
}

BEGIN {
	bold = "`[^`]+`|(provider|probe|sdt)[A-Z][A-Za-z]*|SDT[A-Za-z]+_t|SDT_[A-Z_]+|STAPSDT_[A-Z]+"
	bold = bold "|[a-z][A-Za-z]+Error|memfd_[a-z]+|sdt_[a-z_]+|[A-Z_]+_ARGUMENTS"
}

# text sets the API's names, and what is between backquotes, in bold.
function text(s,   out, name) {
	s = escape(s)
	out = ""
	while (match(s, bold)) {
		name = substr(s, RSTART, RLENGTH)
		gsub(/`/, "", name)
		out = out substr(s, 1, RSTART - 1) "\\fB" name "\\fR"
		s = substr(s, RSTART + RLENGTH)
	}
	return wrap(out s)
}

# wrap breaks a line of more than 80 bytes, as mandoc asks.
function wrap(s,   end) {
	if (length(s) <= 80)
		return s
	for (end = 80; end > 1 && substr(s, end, 1) != " "; end--)
		;
	if (end == 1)
		return s
	return substr(s, 1, end - 1) "\n" wrap(no_request(substr(s, end + 1)))
}

function literal(s) {
	if (!shown)
		print (headed ? "" : ".PP\n") ".nf\n.RS 4"
	shown = 1
	headed = 0
	print escape(s)
}

function end_literal() {
	if (shown)
		print ".RE\n.fi"
	shown = 0
}

function line(s, fresh, heading) {
	if (s ~ /^\t/) {
		literal(substr(s, 2))
		return
	}
	end_literal()
	if (s == "")
		return
	if (fresh && heading && match(s, /^[A-Za-z]+\. /)) {
		section(".SS", substr(s, 1, RLENGTH - 2))
		s = substr(s, RLENGTH + 1)
	} else if (fresh && !headed) {
		print ".PP"
	}
	headed = 0
	print text(s)
}

# section begins a section, whose first paragraph needs no mark of its own.
function section(macro, title) {
	print macro " " title
	headed = 1
}

# body prints a comment. heading says whether its paragraphs may begin with a title.
function body(comment, heading,   lines, n, i) {
	n = split(comment, lines, "\n")
	for (i = 1; i <= n; i++)
		line(lines[i], i == 1 || lines[i - 1] == "" || lines[i - 1] ~ /^\t/, heading)
	end_literal()
}

function code(s,   lines, n, i) {
	n = split(s, lines, "\n")
	for (i = 1; i <= n; i++)
		literal(lines[i])
	end_literal()
}

# declared keeps a declaration and its comment until all are known: those of types and those of
# functions.
function declared(s,   name, kind, i) {
	gsub(/SDT_API /, "", s)
	kind = s ~ /^typedef/ ? "type" : "function"
	i = ++count[kind]
	name = s
	sub(kind == "type" ? ";$" : "\\(.*", "", name)
	sub(/^.*[ *]/, "", name)
	names[kind, i] = name
	codes[kind, i] = s
	texts[kind, i] = comment
	comment = ""
}

# What follows is inlined into callers, and no API.
/^#pragma pop_macro/ {
	exit
}
/^\/\*.*\*\/$/ {
	comment = $0
	gsub(/^\/\* | \*\/$/, "", comment)
	commented = 1
	next
}
/^\/\*$/ {
	inside = 1
	comment = ""
	next
}
inside && /^ \*\/$/ {
	inside = 0
	if (!description) {
		description = comment
		comment = ""
	}
	commented = 1
	next
}
inside {
	sub(/^ \*/, "")
	sub(/^ /, "")
	comment = comment (comment == "" ? "" : "\n") $0
	next
}
commented && /^#define (SDT_VERSION|[A-Z_]+_ARGUMENTS)/ {
	title = $2 ~ /_ARGUMENTS$/ ? "Limits" : "Version"
	if (!(title in constants)) {
		titles[++titled] = title
		constant_texts[title] = comment
	}
	constants[title] = constants[title] (constants[title] == "" ? "" : "\n") $0
	next
}
declaration == "" && /^#|^$|^}|^extern|^struct / {
	next
}
commented {
	declaration = declaration (declaration == "" ? "" : "\n") $0
	if (/;/ && (declaration !~ /\{/ || /^}/)) {
		declared(declaration)
		declaration = ""
	}
}

END {
	first = description
	sub(/\n.*/, "", first)
	name = first
	sub(/:.*/, "", name)
	sub(/^[^:]*: /, "", first)
	sub(/\.$/, "", first)
	sub(/^[^\n]*\n/, "", description)
	print ".TH LIBSTAPSDT 3 \"" date "\" \"libstapsdt " version "\" \"Library Functions\""
	print ".SH NAME\n" name " \\- " escape(first)
	print ".SH SYNOPSIS\n.nf\n.B #include <libstapsdt.h>\n.PP"
	for (i = 1; i <= count["function"]; i++)
		print "\\fB" escape(codes["function", i]) "\\fR"
	print ".PP\nLink with \\fB\\-lstapsdt\\fR: \\fBpkg\\-config \\-\\-cflags \\-\\-libs libstapsdt\\fR\n.fi"
	section(".SH", "DESCRIPTION")
	body(description, 1)
	print ".SH TYPES"
	for (i = 1; i <= titled; i++) {
		section(".SS", titles[i])
		body(constant_texts[titles[i]], 0)
		code(constants[titles[i]])
	}
	for (i = 1; i <= count["type"]; i++) {
		section(".SS", names["type", i])
		body(texts["type", i], 0)
		code(codes["type", i])
	}
	print ".SH FUNCTIONS"
	for (i = 1; i <= count["function"]; i++) {
		section(".SS", names["function", i])
		code(codes["function", i])
		body(texts["function", i], 0)
	}
	print ".SH SEE ALSO\n.BR bpftrace (8),\n.BR dlopen (3),\n.BR memfd_create (2),\n.BR stappaths (7)"
}

package query

import "cmp"

// Format is a format of what a command prints.
type Format string

// The formats.
const (
	Text Format = "" // for people
	JSON Format = "json"
	CSV  Format = "csv" // of RFC 4180
)

// Formats are all formats, in which trace prints events.
var Formats = []Format{Text, JSON, CSV}

// Word returns the word for the format on a command line.
func (f Format) Word() string { return cmp.Or(string(f), "text") }

// IsJSON reports whether a verb that prints Text or JSON has to print JSON. It panics if the verb
// was given another format, which it would print as text.
func (f Format) IsJSON() bool {
	if f != Text && f != JSON {
		panic("this verb does not print " + f.Word())
	}
	return f == JSON
}

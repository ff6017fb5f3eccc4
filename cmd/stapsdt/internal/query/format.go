package query

// Format is a format of what a command prints.
type Format string

// The formats.
const (
	Text Format = "" // for people
	JSON Format = "json"
	CSV  Format = "csv" // of RFC 4180
)

//go:build linux

package script

import "strings"

// maxArgs is the number of arguments of an event that every version of bpftrace reads: the number
// of arguments in registers on amd64.
const maxArgs = 6

// quote returns a name or a path in the form that bpftrace accepts in a probe specification: in
// quotes, if it contains anything except letters, digits and the characters "_.-/". The caller
// makes sure that it contains no quote. Names come from other programs, and root runs the script, so that
// a name must not be able to add code to it.
//
// bpftrace reads a quoted string twice, and each time turns two backslashes into one (tested with
// 0.17, which also accepts a backslash without quotes, but not at the end).
func quote(s string) string {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_.-/", r):
		default:
			return `"` + strings.ReplaceAll(s, `\`, `\\\\`) + `"`
		}
	}
	return s
}

// formatName returns a name as a part of printf's format, and the arguments that this part needs,
// each after ", ". Not every version of bpftrace accepts %% in a format, so a "%" becomes an
// argument. The caller makes sure that the name contains no quote.
func formatName(name string) (format, args string) {
	format = strings.NewReplacer(`\`, `\\`, "%", "%s").Replace(name)
	return format, strings.Repeat(`, "%"`, strings.Count(name, "%"))
}

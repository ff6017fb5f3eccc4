package text

import (
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Width returns the number of a terminal's columns that text takes. Wide characters take two, and combining characters none.
func Width(text string) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return uniseg.StringWidth(text)
		}
	}
	return len(text)
}

// Cut cuts text to at most width columns. A text that was cut ends in ….
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	kept, left := 0, width-1
	for rest, state := text, -1; rest != ""; {
		var cluster string
		var columns int
		if cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state); columns > left {
			break
		}
		kept, left = kept+len(cluster), left-columns
	}
	return text[:kept] + "…"
}

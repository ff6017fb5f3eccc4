// Package render turns what was traced into text and JSON.
package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text with what is not printable replaced, so that a hostile program
// cannot control the terminal.
func Printable(s string) string {
	ok := true
	for i := 0; i < len(s) && ok; i++ {
		ok = s[i] >= ' ' && s[i] < utf8.RuneSelf-1
	}
	if ok {
		return s
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// Number returns a number of things, whose name gets an s unless there is one.
func Number[N int | uint64](n N, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}

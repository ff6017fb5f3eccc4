// Package text makes text from traced programs safe to show.
package text

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Printable returns s with unprintable characters replaced, so that a hostile program cannot
// control the terminal or forge a line of a log.
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

// Some joins the first names of a list, at most most, and adds the number of the others.
func Some(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// List returns names as a sentence has them, such as "a, b and c" if word is "and".
func List(names []string, word string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// PIDs joins the first of some PIDs.
func PIDs(pids []int) string { return Some(strings.Fields(strings.Trim(fmt.Sprint(pids), "[]")), 8) }

// Processes returns "process 12" or "processes 12, 13 and 5 more".
func Processes(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("process %d", pids[0])
	}
	return "processes " + PIDs(pids)
}

// Camel joins the words of a name that are separated by underscores, as Go does: request__done
// becomes RequestDone.
func Camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// Width returns the number of a terminal's columns that text takes. Wide characters take two, and
// combining characters none.
func Width(text string) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return uniseg.StringWidth(text)
		}
	}
	return len(text)
}

// Unlimited is a width that cuts nothing.
const Unlimited = math.MaxInt32

// Cut cuts text to at most width columns. A text that was cut ends in ….
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	kept, left := 0, width-1
	for rest, state := text, -1; rest != ""; {
		var cluster string
		var columns int
		cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if columns > left {
			break
		}
		kept, left = kept+len(cluster), left-columns
	}
	return text[:kept] + "…"
}

// CutBefore cuts text to at most width columns, and its end to at most tail of them. The …
// precedes the end.
func CutBefore(text string, width, tail int) string {
	if Width(text) <= width {
		return text
	}
	var ends []string // each one character longer than the one before it
	for rest, state := text, -1; rest != ""; {
		ends = append(ends, rest)
		_, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
	}
	end := ""
	for i := len(ends) - 1; i >= 0 && Width(ends[i]) <= min(tail, width-1); i-- {
		end = ends[i]
	}
	return Cut(text, width-Width(end)) + end
}

// Number formats a number with the name of the things it counts, which gets an s unless the number
// is 1.
func Number[N int | uint64](n N, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}

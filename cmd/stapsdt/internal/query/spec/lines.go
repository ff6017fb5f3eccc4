package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// Lines are lines of the source, the first and the last. They are zero for a spec of functions or
// probes.
type Lines struct{ First, Last int }

// maxLine is the largest number of a line that the compiler writes.
const maxLine = 1<<20 - 1

// IsZero reports whether there are no lines.
func (l Lines) IsZero() bool { return l == Lines{} }

// IsLine reports whether the spec selects lines.
func (s Spec) IsLine() bool { return !s.Lines.IsZero() }

// String returns the lines as a spec has them: 120, or 120-125.
func (l Lines) String() string {
	if l.First == l.Last {
		return strconv.Itoa(l.First)
	}
	return fmt.Sprintf("%d-%d", l.First, l.Last)
}

// parseLines reads LINE or LINE-LINE. ok is false for anything else, which is the name of a
// function.
func parseLines(text string) (l Lines, ok bool) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	for _, part := range []string{first, last} {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return l, false
		}
	}
	return Lines{lineOf(first), lineOf(last)}, true
}

// lineOf returns the number of a line, or -1 if there is no such line.
func lineOf(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil || n == 0 {
		return -1
	}
	return n
}

// check returns an error unless the lines can exist.
func (l Lines) check(text string) error {
	if l.First < 1 || l.Last < l.First || l.Last > maxLine {
		return fmt.Errorf("%q: there are no such lines", text)
	}
	return nil
}

// CheckOne returns an error if the spec has several lines, which are no one probe.
func (s *Spec) CheckOne() error {
	if s.Lines.First != s.Lines.Last {
		return fmt.Errorf("%q has several lines, which only list takes: give one of them", s.text)
	}
	return nil
}

// IsSource reports whether the pattern is a file of Go source or the end of its path, and not a
// function: no function can have the name go.
func (p Pattern) IsSource() bool { return strings.HasSuffix(string(p), ".go") }

// IsSourceOf reports whether a path is that of the file, or ends with it.
func (p Pattern) IsSourceOf(path string) bool {
	name := string(p)
	return path == name || strings.HasSuffix(path, name) && path[len(path)-len(name)-1] == '/'
}

//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
)

// A table of a machine stands between two lines of docs/cost.md, of which the first names the table and the
// processors.

// replaceInFile puts text between the marks that a file has for a table and a kind of processors.
func replaceInFile(path, table, processors, text string) error {
	beginMark := fmt.Sprintf("\n<!-- %s of %s -->\n", table, processors)
	endMark := fmt.Sprintf("\n<!-- /%s -->\n", table)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(content), beginMark)
	_, after, closed := strings.Cut("\n"+rest, endMark)
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(path, []byte(before+beginMark+text+endMark[1:]+after), 0o644)
}

//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
)

// The table stands between these lines of docs/cost.md.
const (
	beginMark = "\n<!-- cost -->\n"
	endMark   = "\n<!-- /cost -->\n"
)

// replaceInFile puts text between the marks of a file.
func replaceInFile(path, text string) error {
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

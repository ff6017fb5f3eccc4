// Package render turns what was traced into text and JSON.
package render

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/text"
)

// Printable is [text.Printable].
func Printable(s string) string { return text.Printable(s) }

// Number returns a number of things, whose name gets an s unless there is one.
func Number[N int | uint64](n N, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}

// Package render formats traced data as text and JSON.
package render

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/text"
)

// Printable is [text.Printable].
func Printable(s string) string { return text.Printable(s) }

// Number formats a number with the name of the things it counts, which gets an s unless the number is 1.
func Number[N int | uint64](n N, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}

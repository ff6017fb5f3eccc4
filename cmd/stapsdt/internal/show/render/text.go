// Package render formats traced data as text and JSON.
package render

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

// Printable is [text.Printable].
func Printable(s string) string { return text.Printable(s) }

// Number is [text.Number].
func Number[N int | uint64](n N, name string) string { return text.Number(n, name) }

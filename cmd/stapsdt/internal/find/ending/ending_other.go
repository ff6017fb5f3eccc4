//go:build !linux

package ending

import "context"

// Of returns nothing: only Linux is asked.
func Of(context.Context, *Life, string) []Ending { return nil }

// Stopping returns "": there are no units.
func Stopping() string { return "" }

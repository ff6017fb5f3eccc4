//go:build !linux

package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// ofProcesses returns an error, because only Linux has processes that can be traced.
func ofProcesses(*console.Console, *query.Config, *events.Options, bool) (*events.Stream, error) {
	return nil, console.ErrLinux
}

// Pods reports whether this machine runs pods now.
func Pods() bool { return false }

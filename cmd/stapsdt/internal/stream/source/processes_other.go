//go:build !linux

package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// ofPrograms returns an error, because only Linux has processes that can be traced.
func ofPrograms(*console.Console, *query.Config, *events.Options) (*events.Stream, error) {
	return nil, console.ErrLinux
}

// ofKernel is not called, because ofPrograms refuses.
func ofKernel(*console.Console, *query.Config, *events.Options) (*events.Stream, error) {
	return nil, console.ErrLinux
}

// Pods reports whether this machine runs pods now.
func Pods() bool { return false }

//go:build !linux

package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// Route is the source of events.
type Route struct{ Stream *events.Stream }

// choose returns an error, because only Linux has processes that can be traced.
func choose(*console.Console, *query.Config, *events.Options) (Route, error) {
	return Route{}, query.ErrLinux
}

func (Route) open(*console.Console, *query.Config, *events.Options) (*events.Stream, error) {
	return nil, query.ErrLinux
}

// Pods reports whether this machine runs pods now.
func Pods() bool { return false }

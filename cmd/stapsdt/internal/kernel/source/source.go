// Package source opens the source of the events that a user asks for: a recording, a page, or
// processes, which only Linux has: the sockets of programs, or the kernel.
package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
)

// Open opens a stream of the events that a configuration selects. Its Where is the condition.
func Open(to *console.Console, config *query.Config, o events.Options) (*events.Stream, error) {
	route, err := Choose(to, config, o)
	if err != nil || route.Stream != nil {
		return route.Stream, err
	}
	return route.open(to, config, &o)
}

// Choose is Open for a command whose work the kernel itself can do: if the kernel is the source,
// the route has no stream.
func Choose(to *console.Console, config *query.Config, o events.Options) (Route, error) {
	if !o.From.Given() {
		return choose(to, config, &o)
	}
	stream, err := events.Open(to, config, o)
	return Route{Stream: stream}, err
}

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
	return open(to, config, &o, true)
}

// Outside is Open for a command whose work the kernel itself can do: it returns nil if the kernel
// is the source.
func Outside(to *console.Console, config *query.Config, o events.Options) (*events.Stream, error) {
	return open(to, config, &o, false)
}

func open(
	to *console.Console, config *query.Config, o *events.Options, kernel bool,
) (*events.Stream, error) {
	s, err := events.Open(to, config, *o)
	if err != nil || s != nil {
		return s, err
	}
	return ofProcesses(to, config, o, kernel)
}

package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
)

// ofPrograms returns the stream of programs that listen, or nil if the kernel delivers the events.
func ofPrograms(
	to *console.Console, config *query.Config, o *events.Options,
) (*events.Stream, error) {
	route, err := live.Choose(to, config, o.Needs)
	if err != nil || route.Feed == nil {
		return nil, err
	}
	own := &feed{Feed: route.Feed, show: o.Show}
	return &events.Stream{Source: own, Live: true, Why: events.TooFast}, nil
}

// ofKernel returns the stream of the kernel.
func ofKernel(
	to *console.Console, config *query.Config, o *events.Options,
) (*events.Stream, error) {
	k, err := openKernel(to, config, o)
	if err != nil {
		return nil, live.Refuse(err, o.Needs.Kernel)
	}
	return &events.Stream{Source: k, Live: true, Pods: k.pods, Why: events.TooFast}, nil
}

// Pods reports whether this machine runs pods now.
func Pods() bool { return pods.Any() }

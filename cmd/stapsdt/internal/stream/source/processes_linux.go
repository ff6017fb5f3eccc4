package source

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
)

// ofProcesses returns the stream of programs that listen. If the kernel delivers the events, it
// returns the kernel's stream if kernel is true, and nil otherwise.
func ofProcesses(
	to *console.Console, config *query.Config, o *events.Options, kernel bool,
) (*events.Stream, error) {
	route, err := live.Choose(to, config, o.Needs)
	switch {
	case err != nil:
		return nil, err
	case route.Feed != nil:
		own := &feed{Feed: route.Feed, show: o.Show}
		return &events.Stream{Source: own, Live: true, Why: events.TooFast}, nil
	case !kernel:
		return nil, nil
	}
	k, err := openKernel(to, config, o)
	if err != nil {
		return nil, live.Refuse(err, o.Needs.Kernel)
	}
	return &events.Stream{Source: k, Live: true, Pods: k.pods, Why: events.TooFast}, nil
}

// Pods reports whether this machine runs pods now.
func Pods() bool { return pods.Any() }

//go:build linux

package span

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
)

// heldSpan is a span of a process in a control group of a container that may not have its names
// yet.
type heldSpan struct {
	expose.Span
	cgroup uint64
}

// maxHeld is the maximum number of spans that wait for the names of new containers.
const maxHeld = 1024

// hold sends a span, at once if its container is known.
func (s *Rule) hold(span heldSpan) {
	if !s.send(span, len(s.held) >= maxHeld) {
		s.held = append(s.held, span)
	}
}

// release sends the spans whose containers are known by now, or all.
func (s *Rule) release(all bool) {
	rest := s.held[:0]
	for _, span := range s.held {
		if !s.send(span, all) {
			rest = append(rest, span)
		}
	}
	clear(s.held[len(rest):])
	s.held = rest
}

// send sends a span and reports true, if its container is known or must is true.
func (s *Rule) send(span heldSpan, must bool) bool {
	c, pending := s.Cgroups.Container(span.cgroup, time.Now())
	if pending && !must {
		return false
	}
	if c.ID != cgroup.Unknown {
		span.Container = c
	}
	s.Spans(span.Span)
	return true
}

package slogprobe

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
)

// hostileContext panics if anything asks it.
type hostileContext struct{}

func (hostileContext) Deadline() (time.Time, bool) { panic("hostile") }
func (hostileContext) Done() <-chan struct{}       { panic("hostile") }
func (hostileContext) Err() error                  { panic("hostile") }
func (hostileContext) Value(any) any               { panic("hostile") }

// TestHostileContext: a record's context is not asked for anything.
func TestHostileContext(t *testing.T) {
	p := eventtest.Provider(t, "slogprobe")
	defer p.Observe(func(*stapsdt.Event) {})()
	logger := slog.New(New(p).Handler(discarding{}))
	logger.DebugContext(hostileContext{}, "m")
	logger.DebugContext((*hostileContext)(nil), "m")
	logger.DebugContext(context.WithValue(hostileContext{}, hostileContext{}, 2), "m")
}

//go:build linux

package export

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// rulesState is the state of the rules file.
type rulesState struct {
	path    string
	file    os.FileInfo // the file at the last check, or nil
	checked time.Time   // when the file was last checked
	hangup  atomic.Bool // whether the file must be read again
	failed  atomic.Bool // whether the last reload failed
	at      time.Time   // when the rules in force were read
}

// due reports whether the file must be read again: at once after a hangup, and soon after it has
// changed.
func (s *rulesState) due() bool {
	hangup := s.hangup.Swap(false)
	if !hangup && time.Since(s.checked) < engine.Interval {
		return false
	}
	s.checked = time.Now()
	was := s.file
	s.file, _ = os.Stat(s.path)
	if hangup || s.file == nil || was == nil {
		return hangup || s.file != was // the file has appeared or disappeared
	}
	return !probes.SameContent(s.file, was)
}

// reloaded notes whether a reload succeeded, and prints why it did not.
func (s *rulesState) reloaded(to *console.Console, err error) (succeeded bool) {
	s.failed.Store(err != nil)
	if err != nil {
		to.Warn("%v; the rules in force stay", err)
	}
	return err == nil
}

// eachHangup calls f for each signal until ctx is done.
func eachHangup(ctx context.Context, hangup <-chan os.Signal, f func()) {
	for {
		select {
		case <-hangup:
			f()
		case <-ctx.Done():
			return
		}
	}
}

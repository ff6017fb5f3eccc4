//go:build linux

package export

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
)

// rulesState is the state of the rules file.
type rulesState struct {
	path    string
	file    os.FileInfo // when it was last looked at, or nil
	checked time.Time   // then
	hangup  atomic.Bool // whether it is to be read again
	failed  bool        // its content is not in force
	at      time.Time   // when the rules in force were read
}

// due reports whether the file is to be read again: at once after a hangup, and soon after it changed.
func (s *rulesState) due() bool {
	hangup := s.hangup.Swap(false)
	if !hangup && time.Since(s.checked) < engine.Interval {
		return false
	}
	s.checked = time.Now()
	was := s.file
	s.file, _ = os.Stat(s.path)
	if hangup || s.file == nil || was == nil {
		return hangup || s.file != was // it has appeared, or is gone
	}
	return !probes.SameContent(s.file, was)
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

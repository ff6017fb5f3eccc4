//go:build linux

package live

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
)

const (
	// shortestRefusal is the delay after the first failure to watch a process. It doubles with each
	// failure, up to longestRefusal.
	shortestRefusal = time.Second
	longestRefusal  = time.Minute
)

// refusals holds the processes that could not be watched and will be tried again.
type refusals map[socket.Key]refusal

type refusal struct {
	after time.Duration
	until time.Time
}

// add records that a process could not be watched, and reports whether this is the first time.
func (r refusals) add(k socket.Key, now time.Time) (first bool) {
	one, known := r[k]
	one.after = min(max(2*one.after, shortestRefusal), longestRefusal)
	one.until = now.Add(one.after)
	r[k] = one
	return !known
}

// has reports whether the next attempt for a process is not due yet.
func (r refusals) has(k socket.Key, now time.Time) bool { return now.Before(r[k].until) }

// due reports whether the next attempt for any process is due.
func (r refusals) due(now time.Time) bool {
	for _, one := range r {
		if !now.Before(one.until) {
			return true
		}
	}
	return false
}

// purge removes processes that no longer listen, or that were watched since.
func (r refusals) purge(listening []*socket.Process, now time.Time) {
	listed := make(map[socket.Key]bool, len(listening))
	for _, p := range listening {
		listed[p.Key()] = true
	}
	for k, one := range r {
		if now.After(one.until) && !listed[k] || now.After(one.until.Add(longestRefusal)) {
			delete(r, k)
		}
	}
}

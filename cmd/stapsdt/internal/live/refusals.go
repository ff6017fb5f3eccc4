//go:build linux

package live

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
)

const (
	// shortestRefusal is how long a process is left alone that could not be watched. It doubles each time, until longestRefusal.
	shortestRefusal = time.Second
	longestRefusal  = time.Minute
)

// refusals has the processes that could not be watched, and are tried again later.
type refusals map[socket.Key]*refusal

type refusal struct {
	after time.Duration
	until time.Time
}

// add notes that a process could not be watched, and reports whether this is the first time.
func (r refusals) add(k socket.Key, now time.Time) (first bool) {
	one := r[k]
	if first = one == nil; first {
		one = &refusal{after: shortestRefusal / 2}
		r[k] = one
	}
	one.after = min(2*one.after, longestRefusal)
	one.until = now.Add(one.after)
	return first
}

// has reports whether a process is left alone.
func (r refusals) has(k socket.Key, now time.Time) bool { return r[k] != nil && now.Before(r[k].until) }

// due reports whether one of them is to be tried again.
func (r refusals) due(now time.Time) bool {
	for _, one := range r {
		if !now.Before(one.until) {
			return true
		}
	}
	return false
}

// prune forgets those that are not among the processes that listen, and those that were watched since.
func (r refusals) prune(listening []*socket.Process, now time.Time) {
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

//go:build linux

package rule

import (
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
)

// Complaints prints warnings of problems, and the same warning at most once in complainEvery.
type Complaints struct {
	to   *console.Console
	mu   sync.Mutex
	said map[string]time.Time
}

// NewComplaints returns an empty Complaints.
func NewComplaints(to *console.Console) *Complaints {
	return &Complaints{to: to, said: map[string]time.Time{}}
}

const (
	// complainEvery is the minimum time between two equal warnings.
	complainEvery = time.Minute
	// maxSaid is the maximum number of warnings that are kept.
	maxSaid = 1000
)

// Complain prints a warning, unless it printed the same one within the last minute.
func (c *Complaints) Complain(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if last, ok := c.said[text]; ok && now.Sub(last) < complainEvery {
		return
	}
	if len(c.said) > maxSaid {
		clear(c.said)
	}
	c.said[text] = now
	c.to.Warn("%s", text)
}

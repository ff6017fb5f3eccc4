//go:build linux

package probes

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

// Lives says of processes whether they exist, and looks at each once. One in another PID namespace
// has no number here, and is taken for one that does.
type Lives map[int]bool

// Has reports whether a process exists.
func (l Lives) Has(pid int) bool {
	lives, known := l[pid]
	if !known {
		lives = pid == 0 || target.Alive(pid)
		l[pid] = lives
	}
	return lives
}

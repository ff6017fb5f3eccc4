//go:build linux

package live

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
)

// family maps the PIDs of the processes of -p and of their descendants to their start times. A process that reuses the
// PID of an ended one is not in the family.
type family map[int]uint64

// remember replaces the family with its living members and all of their descendants, and returns their PIDs.
func (f family) remember() []int {
	var living []int
	for pid, start := range f {
		if socket.Started(pid) == start {
			living = append(living, pid)
		} else {
			delete(f, pid)
		}
	}
	if len(living) == 0 {
		return nil
	}
	all := proc.Family(living)
	for _, pid := range all {
		if start := socket.Started(pid); f[pid] == 0 && start != 0 {
			f[pid] = start
		}
	}
	return all
}

// listening returns the listening processes of the family.
func (f family) listening() (all []*socket.Process) {
	for _, pid := range f.remember() {
		if p, err := socket.Find(pid); err == nil && p.Start == f[pid] {
			all = append(all, p)
		}
	}
	return all
}

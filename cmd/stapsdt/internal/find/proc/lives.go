//go:build linux

package proc

// Lives reports whether processes exist, and looks at each once. A process of another PID
// namespace, which has no PID here, counts as existing.
type Lives map[int]bool

// Has reports whether a process exists.
func (l Lives) Has(pid int) bool {
	lives, known := l[pid]
	if !known {
		lives = pid == 0 || Alive(pid)
		l[pid] = lives
	}
	return lives
}

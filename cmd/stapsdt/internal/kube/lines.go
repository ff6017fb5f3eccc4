//go:build unix

package kube

import (
	"strings"
	"sync"
)

// held is a writer for lines of a command. It keeps them until it is known whether the last one is
// an error.
type held struct {
	mu    sync.Mutex
	lines []string
	to    func(line string) // once pass was called
}

func (h *held) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := strings.TrimSpace(strings.TrimPrefix(string(b), "stapsdt: "))
	if h.to != nil {
		h.to(line)
	} else {
		h.lines = append(h.lines, line)
	}
	return len(b), nil
}

// pass calls to with each line, also with all further ones.
func (h *held) pass(to func(line string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = to
	for _, line := range h.lines {
		to(line)
	}
	h.lines = nil
}

// last returns the text of the last line, which says why a command has failed.
func (h *held) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == 0 {
		return ""
	}
	return h.lines[len(h.lines)-1]
}

//go:build unix

package kube

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// lines writes the lines of several pods.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// of returns a writer for the lines of a pod, which begin with its name.
func (l *lines) of(pod string) io.Writer { return &podLines{all: l, pod: pod} }

// podLines is a writer for whole lines.
type podLines struct {
	all *lines
	pod string
}

func (l *podLines) Write(b []byte) (int, error) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	for line := range bytes.Lines(b) {
		text := strings.TrimPrefix(string(line), "stapsdt: ")
		if _, err := fmt.Fprintf(l.all.to, "stapsdt: %s: %s", l.pod, text); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// held keeps lines until it is known whether the last one is an error.
type held struct {
	mu    sync.Mutex
	lines [][]byte
	to    io.Writer // once pass was called
}

func (h *held) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.to != nil {
		return h.to.Write(b)
	}
	h.lines = append(h.lines, bytes.Clone(b))
	return len(b), nil
}

// pass writes the lines, and all further ones.
func (h *held) pass(to io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = to
	for _, line := range h.lines {
		_, _ = to.Write(line)
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
	return trimLine(string(h.lines[len(h.lines)-1]))
}

// trimLine returns the text of a line of the command.
func trimLine(line string) string {
	return strings.TrimSpace(strings.TrimPrefix(line, "stapsdt: "))
}

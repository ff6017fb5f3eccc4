//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Status is the content of /proc/PID/status.
type Status []byte

// ReadStatus reads the status of a process or a thread.
func ReadStatus(pid int) (Status, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) }

// Word returns the i-th word of a line other than the first, or the last word if i is -1, or "" if there is none.
func (s Status) Word(name string, i int) string {
	_, rest, _ := bytes.Cut(s, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return word(line, i)
}

// Stat returns the i-th word of /proc/PID/stat, beginning with the state, or "" if there is none.
func Stat(pid, i int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return word(stat[bytes.LastIndexByte(stat, ')')+1:], i) // the name, in parentheses, may contain anything
}

func word(line []byte, i int) string {
	words := strings.Fields(string(line))
	if i < 0 {
		i += len(words)
	}
	if i < 0 || i >= len(words) {
		return ""
	}
	return words[i]
}

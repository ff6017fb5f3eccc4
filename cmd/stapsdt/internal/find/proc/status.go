//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"golang.org/x/sys/unix"
)

// Status is the content of /proc/PID/status.
type Status []byte

// ReadStatus reads the status of a process or a thread.
func ReadStatus(pid int) (Status, error) { return readFile(fmt.Sprintf("/proc/%d/status", pid)) }

// Word returns the i-th word of a line other than the first, or the last word if i is -1, or "" if
// there is none.
func (s Status) Word(name string, i int) string {
	_, rest, _ := bytes.Cut(s, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return word(line, i)
}

// Handles reports whether a process has a handler for a signal.
func Handles(pid int, s unix.Signal) bool {
	status, _ := ReadStatus(pid)
	caught, err := strconv.ParseUint(status.Word("SigCgt", 0), 16, 64)
	return err == nil && caught>>(s-1)&1 == 1
}

// Stat returns the i-th word of /proc/PID/stat, beginning with the state, or "" if there is none.
func Stat(pid, i int) string {
	stat, _ := readStat(pid)
	return word(stat, i)
}

// readStat returns /proc/PID/stat, beginning with the state.
func readStat(pid int) ([]byte, error) {
	stat, err := readFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name, in parentheses, may contain anything.
	return stat[bytes.LastIndexByte(stat, ')')+1:], err
}

// IsProcess reports whether an ID is a PID, and not the ID of another thread. It reports true if a
// shortage of descriptors or memory leaves this open.
func IsProcess(id int) bool {
	status, err := ReadStatus(id)
	return stall.Short(err) || status.Word("Tgid", 0) == strconv.Itoa(id)
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

// StartTicks returns the start time of a process in ticks since the boot, or 0 and an error if
// there is no such process.
func StartTicks(pid int) (uint64, error) { return strconv.ParseUint(Stat(pid, 19), 10, 64) }

// Age returns the time since a process started, or false if there is no such process.
func Age(pid int) (time.Duration, bool) {
	ticks, err := StartTicks(pid)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0, false
	}
	const tick = 10 * time.Millisecond // on every architecture that is traced
	return max(0, time.Duration(now.Nano())-time.Duration(ticks)*tick), true
}

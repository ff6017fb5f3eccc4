//go:build linux

package list

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"golang.org/x/sys/unix"
)

// maxMapped is the maximum number of files of a process that are opened to find recordings.
const maxMapped = 256

// Recording is the recording of a process.
type Recording struct {
	PID  int    `json:"pid"`
	File string `json:"file"`
}

// Recordings returns the files to which processes record, with the paths that the processes see. A process has its recording mapped.
func Recordings(pids []int) (all []Recording) {
	for _, pid := range pids {
		mappings, _, err := proc.Mappings(pid)
		if err != nil {
			continue
		}
		opened := 0
		for i := range mappings {
			m := &mappings[i]
			if m.Executable || m.Offset != 0 || m.End-m.Start <= recording.HeadBytes || strings.HasPrefix(m.Path, "/memfd:") || opened == maxMapped {
				continue
			}
			opened++
			if isRecording(fmt.Sprintf("/proc/%d/root%s", pid, m.Path), m.Device) {
				all = append(all, Recording{pid, m.Path})
			}
		}
	}
	return all
}

// isRecording reports whether a file begins like a recording. The file system on its device may hang.
func isRecording(path string, device uint64) bool {
	found, err := stall.Do(device, func() (bool, error) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return false, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return false, err
		}
		var begin [len(recording.Magic)]byte
		_, err = io.ReadFull(f, begin[:])
		return string(begin[:]) == recording.Magic, err
	}, nil)
	return found && err == nil
}

// recordingLines describes the files to which some processes record.
func (l *lister) recordingLines(pids []int) (lines []string) {
	for _, r := range l.recordingOf(pids) {
		lines = append(lines, fmt.Sprintf("recorded in %s by process %d", r.File, r.PID))
	}
	return lines
}

// recordingOf returns the recordings of some processes.
func (l *lister) recordingOf(pids []int) (all []Recording) {
	for _, r := range l.recording {
		if slices.Contains(pids, r.PID) {
			all = append(all, r)
		}
	}
	return all
}

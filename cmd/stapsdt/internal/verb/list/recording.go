//go:build linux

package list

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"

	"golang.org/x/sys/unix"
)

// maxMapped is the maximum number of files of a process that are opened to find recordings.
const maxMapped = 256

// maxNames is the maximum number of names in a directory that are compared to find kept recordings.
const maxNames = 16384

// Recordings returns the files to which processes record, and those to which earlier processes have
// recorded, with the paths that the processes see. A process has its recording mapped.
func Recordings(pids []int) (all []Recording) {
	for _, pid := range pids {
		mappings, _, err := proc.Mappings(pid)
		if err != nil {
			continue
		}
		opened := 0
		for i := range mappings {
			m := &mappings[i]
			isData := !m.Executable && m.Offset == 0 && m.End-m.Start > recording.HeadBytes
			if !isData || strings.HasPrefix(m.Path, "/memfd:") || opened == maxMapped {
				continue
			}
			opened++
			root := fmt.Sprintf("/proc/%d/root", proc.Task(pid))
			if !isRecording(root+m.Path, m.Device) {
				continue
			}
			all = append(all, Recording{PID: pid, File: m.Path})
			for _, name := range kept(root+m.Path, m.Device) {
				name = filepath.Join(filepath.Dir(m.Path), name)
				if isRecording(root+name, m.Device) {
					all = append(all, Recording{pid, name, true})
				}
			}
		}
	}
	return all
}

// isRecording reports whether a file begins like a recording. The file system on its device may
// hang.
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

// kept returns the names of the recordings that the library has renamed, the oldest first.
func kept(path string, device uint64) []string {
	found, _ := stall.Do(device, func() (names []string, err error) {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		all, err := dir.Readdirnames(maxNames)
		for _, name := range all {
			rest, ok := strings.CutPrefix(name, filepath.Base(path))
			if ok && recordfile.IsTimeSuffix(rest) {
				names = append(names, name)
			}
		}
		return names, err
	}, nil)
	slices.Sort(found)
	return found[max(0, len(found)-recordfile.Keep):]
}

// recordingLines describes the files to which some processes record.
func (l *lister) recordingLines(pids []int) (lines []string) {
	for _, r := range l.recordingOf(pids) {
		line := fmt.Sprintf("recorded in %s by process %d", r.File, r.PID)
		if r.Kept {
			line = fmt.Sprintf("recorded in %s by an earlier process", r.File)
		}
		lines = append(lines, line)
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

//go:build linux

package list

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"golang.org/x/sys/unix"
)

// listener is a process that listens.
type listener struct {
	*socket.Process
	path string // path of its socket, if it has answered
	// probes are the probes that only its socket shows, and no file.
	probes []*recording.Probe
}

// listeners returns the listening processes of the target, sorted by PID.
func (l *lister) listeners() (all []*listener) {
	if l.target.All {
		for _, p := range socket.Processes() {
			all = append(all, &listener{Process: p})
		}
	}
	now, _ := l.target.Now()
	for _, pid := range now.PIDs {
		if p, err := socket.Find(pid); err == nil {
			all = append(all, &listener{Process: p})
		}
	}
	slices.SortStableFunc(all, func(a, b *listener) int { return a.PID - b.PID })
	return all
}

// ask asks the listeners for probes that no file of theirs shows: probes of providers that are not loaded, and of
// processes whose files are not accessible.
func ask(all []*listener, found *probes.Found) {
	shown := map[string]bool{}
	for _, f := range found.Files {
		for _, u := range found.Uses[f] {
			for _, p := range f.Probes {
				shown[fmt.Sprintf("%d %s:%s", u.PID, p.Provider, p.Name)] = true
			}
		}
	}
	answers := make(chan func(), len(all))
	var dialer socket.Dialer
	for _, one := range all {
		dialer.Do(one.Process, func() {
			c, err := one.Dial()
			answers <- func() {
				if err != nil {
					return // doctor explains why
				}
				defer c.Close()
				one.path = c.Path()
				one.probes = slices.DeleteFunc(c.Probes, func(p *recording.Probe) bool {
					return !one.Elsewhere && shown[fmt.Sprintf("%d %s:%s", one.PID, p.Provider, p.Name)]
				})
			}
		})
	}
	late := time.After(askPatience)
	for range all {
		select {
		case take := <-answers:
			take()
		case <-late:
			return
		}
	}
}

// askPatience is how long all listeners together may take to answer.
const askPatience = 5 * time.Second

// pids returns the PID of the listener, or none if the listener is in another PID namespace.
func (one *listener) pids() []int {
	if one.Elsewhere {
		return []int{}
	}
	return []int{one.PID}
}

// shown returns the probes that only the socket shows.
func (one *listener) shown(recordings []Recording) (all []*probe) {
	for _, p := range one.probes {
		shown := newProbe(p, one.pids()...)
		shown.Socket, shown.Listening, shown.Recordings = one.path, one.pids(), recordings
		all = append(all, shown)
	}
	return all
}

// listeningOf returns the processes among pids that listen.
func (l *lister) listeningOf(pids []int) (listening []int) {
	for _, pid := range pids {
		if slices.ContainsFunc(l.listening, func(one *listener) bool { return !one.Elsewhere && one.PID == pid }) {
			listening = append(listening, pid)
		}
	}
	return listening
}

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

// jsonPod is the container of a process in a pod.
type jsonPod struct {
	PID       int    `json:"pid"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

// findPods finds the pods of the processes.
func (l *lister) findPods(found *probes.Found) {
	pods := cgroup.NewPods(cgroup.Links)
	if pods.Refresh(); !pods.Any() {
		return
	}
	l.pods = map[int]cgroup.Container{}
	for _, pid := range l.pids(found) {
		if c := pods.OfProcess(pid); c.InPod() {
			l.pods[pid] = c
		}
	}
}

// podsOf returns the pods of some processes.
func (l *lister) podsOf(pids []int) (all []jsonPod) {
	for _, pid := range pids {
		if c, ok := l.pods[pid]; ok {
			all = append(all, jsonPod{pid, c.Namespace, c.Pod, c.Name})
		}
	}
	return all
}

// podLines describes the containers of some processes.
func (l *lister) podLines(pids []int) (lines []string) {
	of := map[string][]int{}
	for _, pid := range pids {
		if c, ok := l.pods[pid]; ok {
			of[c.Path()] = append(of[c.Path()], pid)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, fmt.Sprintf("in the pod %s: %s", path, processList(of[path])))
	}
	return lines
}

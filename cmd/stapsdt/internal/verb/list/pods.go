//go:build linux

package list

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

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
			name := render.PodName{Namespace: c.Namespace, Pod: c.Pod, Container: c.Name}
			all = append(all, jsonPod{pid, name})
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
		lines = append(lines, fmt.Sprintf("in the pod %s: %s", path, text.Processes(of[path])))
	}
	return lines
}

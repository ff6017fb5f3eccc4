//go:build linux

package replay

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Process is a process that writes to a recording.
type Process struct {
	PID int
	// Executable is the path of its program, and Comm its name, as the kernel has it.
	Executable, Comm string
	// Pod is that of the process, or nil.
	Pod *recording.Pod

	looked time.Duration // when the pod was looked for last, by CLOCK_MONOTONIC
}

// pods are those of this machine.
var pods = sync.OnceValue(func() *cgroup.Pods { return cgroup.NewPods(cgroup.Links) })

// FindPod looks for the pod of a process that has none yet, at a time and at most four times a second: that of
// a new container has no name in its first moments.
func (p *Process) FindPod(now time.Duration) {
	const again = 250 * time.Millisecond
	if p.Pod != nil || p.looked != 0 && now-p.looked < again {
		return
	}
	p.looked = now
	all := pods()
	if all.Refresh(); !all.Any() {
		return
	}
	if c := all.OfProcess(p.PID); c.InPod() {
		p.Pod = &recording.Pod{Namespace: c.Namespace, Name: c.Pod, Container: c.Name}
	}
}

// NewProcess returns what the kernel knows of a process.
func NewProcess(pid int) *Process {
	p := &Process{PID: pid}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		p.Comm = strings.TrimSuffix(string(b), "\n")
	}
	p.Executable, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	p.FindPod(1)
	return p
}

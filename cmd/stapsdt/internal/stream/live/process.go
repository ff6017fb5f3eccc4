//go:build linux

package live

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// pods finds the pods of this machine.
var pods = sync.OnceValue(func() *cgroup.Pods { return cgroup.NewPods(cgroup.Links) })

// own is the pod that SetPod has set, or nil.
var own *recording.Pod

// SetPod sets the pod of all processes, for a command in a pod. It must be called before the first
// NewProcess.
func SetPod(pod recording.Pod) { own = &pod }

// FindPod looks up the pod of a process that has none yet. It does so at most four times a second,
// by now, because the pod of a new container has no name at first.
func FindPod(p *replay.Process, now time.Duration) {
	const again = 250 * time.Millisecond
	if p.Pod != nil || p.Looked != 0 && now-p.Looked < again {
		return
	}
	p.Looked = now
	if own != nil {
		p.Pod = own
		return
	}
	all := pods()
	if all.Refresh(); !all.Any() {
		return
	}
	c := all.OfProcess(p.PID)
	p.Pod = c.AsPod()
}

// NewProcess returns a Process with the kernel's data about it.
func NewProcess(pid int) *replay.Process {
	p := &replay.Process{PID: pid}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		p.Comm = strings.TrimSuffix(string(b), "\n")
	}
	p.Executable = proc.Executable(pid)
	FindPod(p, 1)
	return p
}

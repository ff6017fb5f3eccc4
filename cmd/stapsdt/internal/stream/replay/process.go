package replay

import (
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Process is a process that writes to a recording.
type Process struct {
	PID int
	// Executable is the path of the process's program, and Comm its name in the kernel.
	Executable, Comm string
	// Probes are those that the process has announced, before they are in the recording, or nil.
	Probes []*recording.Probe
	// Pod is the pod of the process, or nil.
	Pod *recording.Pod
	// Looked is the time when the pod was last looked up, by CLOCK_MONOTONIC.
	Looked time.Duration
}

// PodName returns the name of the pod, NAMESPACE/POD/CONTAINER, or "" if there is none. The process
// may be nil.
func (p *Process) PodName() string {
	if p == nil || p.Pod == nil {
		return ""
	}
	return p.Pod.Namespace + "/" + p.Pod.Name + "/" + p.Pod.Container
}

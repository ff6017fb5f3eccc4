//go:build linux

package follow

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/cilium/ebpf"
)

// Pods keeps the control groups of pods in BPF maps. List and Has select processes.
type Pods struct {
	*pods.Selection
	// Names has the names of all pods.
	Names *bpf.PodNames
	// Set has the groups that the patterns select. It is nil if there is no pattern.
	Set *ebpf.Map

	problem func(error) // is called with the error if a pod cannot be followed
	groups  *cgroup.Groups
	known   map[uint64]cgroup.Container
	pending bool // whether a container's link may still appear
}

// PodInterval is the maximum time until a new pod is known, once its link exists.
const PodInterval = 100 * time.Millisecond

// NewPods begins to follow the pods of the machine, and to select the pods that match patterns.
func NewPods(patterns []query.PodPattern, problem func(error)) (f *Pods, err error) {
	known := map[uint64]cgroup.Container{}
	f = &Pods{Selection: pods.Select(patterns), problem: problem, known: known}
	f.groups = cgroup.New(func(uint64) string { return "" }, f.Selection.Pods)
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.Names, err = bpf.NewPodNames(); err != nil {
		return f, err
	}
	if len(patterns) > 0 {
		if f.Set, err = bpf.NewCgroups(); err != nil {
			return f, bpf.MapError(err)
		}
		if !f.Here() {
			return f, pods.ErrNone
		}
	}
	f.update()
	return f, nil
}

// Update looks for pods that have come or gone. It costs little if there are none.
func (f *Pods) Update() {
	links := f.Refresh()
	if f.groups.Changed() || links || f.pending {
		f.update()
	}
}

func (f *Pods) update() {
	now := f.groups.All()
	f.pending = false
	for id := range now {
		if _, ok := f.known[id]; ok {
			continue
		}
		c, pending := f.groups.Container(id, time.Time{})
		if pending {
			f.pending = true
			continue
		}
		f.known[id] = c
		if c.InPod() {
			f.add(id, &c)
		}
	}
	for id := range f.known {
		if _, ok := now[id]; !ok {
			delete(f.known, id)
			f.Names.Delete(id)
			if f.Set != nil {
				_ = f.Set.Delete(id)
			}
		}
	}
}

func (f *Pods) add(id uint64, c *cgroup.Container) {
	err := f.Names.Put(id, c.AsPod())
	if f.Selects(c) && f.Set != nil {
		err = errors.Join(err, f.Set.Put(id, uint8(1)))
	}
	if err != nil {
		f.problem(fmt.Errorf("the pod %s is not followed: %w", c.Path(), err))
	}
}

// Container returns the container of a control group, as far as it is known.
func (f *Pods) Container(id uint64) cgroup.Container {
	c, _ := f.groups.Container(id, time.Now())
	return c
}

// Close releases the maps.
func (f *Pods) Close() {
	f.Names.Close()
	f.Set.Close()
}

// List returns the selected processes. It implements engine.Processes.
func (f *Pods) List() (pids []int, err error) {
	f.Update()
	return f.Processes()
}

// Has reports whether a process is selected. It implements engine.Processes.
func (f *Pods) Has(pid int) bool {
	f.Update()
	return f.HasProcess(pid)
}

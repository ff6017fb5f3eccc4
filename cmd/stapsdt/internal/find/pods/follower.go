//go:build linux

// Package pods follows the pods of this machine for a command: it selects their processes, and passes
// their names to BPF programs.
package pods

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/cilium/ebpf"
)

// Follower keeps the control groups of pods in BPF maps.
type Follower struct {
	// Names has the names of all pods.
	Names *bpf.PodNames
	// Set has the groups that the patterns select. It is nil if there is no pattern.
	Set *ebpf.Map
	// Problem is called with the error if a pod cannot be followed.
	Problem func(error)

	patterns []query.PodPattern
	pods     *cgroup.Pods
	groups   *cgroup.Groups
	known    map[uint64]cgroup.Container
	pending  bool // whether a container's link may still appear
}

// Interval is the maximum time until a new pod is known, once its link exists.
const Interval = 100 * time.Millisecond

// Here reports whether this machine runs pods, and Any whether there are any now.
func Here() bool { return machine().Here() }

// Any reports whether there are pods.
func Any() bool { return machine().Any() }

func machine() *cgroup.Pods {
	p := cgroup.NewPods(cgroup.Links)
	p.Refresh()
	return p
}

// Follow begins to follow the pods of the machine, and to select the pods that match patterns.
func Follow(patterns []query.PodPattern, problem func(error)) (f *Follower, err error) {
	f = &Follower{patterns: patterns, pods: cgroup.NewPods(cgroup.Links), Problem: problem, known: map[uint64]cgroup.Container{}}
	f.groups = cgroup.New(func(uint64) string { return "" }, f.pods)
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.Names, err = bpf.NewPodNames(); err != nil {
		return f, err
	}
	f.pods.Refresh()
	if len(patterns) > 0 {
		if f.Set, err = bpf.NewCgroups(); err != nil {
			return f, bpf.MapError(err)
		}
		if !f.pods.Here() {
			return f, ErrNone
		}
	}
	f.update()
	return f, nil
}

// ErrNone means that this machine runs no pods, or that they are not visible.
var ErrNone = errors.New("this machine has no pods: there is no " + cgroup.Links + " that can be read")

// Update looks for pods that have come or gone. It costs little if there are none.
func (f *Follower) Update() {
	links := f.pods.Refresh()
	if f.groups.Changed() || links || f.pending {
		f.update()
	}
}

func (f *Follower) update() {
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

func (f *Follower) add(id uint64, c *cgroup.Container) {
	err := f.Names.Put(id, c.AsPod())
	if f.Selects(c) && f.Set != nil {
		err = errors.Join(err, f.Set.Put(id, uint8(1)))
	}
	if err != nil {
		f.Problem(fmt.Errorf("the pod %s is not followed: %w", c.Path(), err))
	}
}

// Selects reports whether a pattern selects a container.
func (f *Follower) Selects(c *cgroup.Container) bool {
	return slices.ContainsFunc(f.patterns, func(p query.PodPattern) bool { return c.Matches(p) })
}

// Container returns the container of a control group, as far as it is known.
func (f *Follower) Container(id uint64) cgroup.Container {
	c, _ := f.groups.Container(id, time.Now())
	return c
}

// Any reports whether there are pods.
func (f *Follower) Any() bool { return f.pods.Any() }

// Close releases the maps.
func (f *Follower) Close() {
	f.Names.Close()
	f.Set.Close()
}

// List returns the selected processes. It implements engine.Processes.
func (f *Follower) List() (pids []int, err error) {
	f.Update()
	return f.list()
}

func (f *Follower) list() ([]int, error) {
	all, err := proc.Processes()
	return slices.DeleteFunc(all, func(pid int) bool { return !f.has(pid) }), err
}

// Has reports whether a process is selected. It implements engine.Processes.
func (f *Follower) Has(pid int) bool {
	f.Update()
	return f.has(pid)
}

func (f *Follower) has(pid int) bool {
	if len(f.patterns) == 0 {
		return true
	}
	c := f.pods.OfProcess(pid)
	return f.Selects(&c)
}

// PIDs returns the processes that patterns select now, or an error if there are none.
func PIDs(patterns []query.PodPattern) ([]int, error) {
	f := &Follower{patterns: patterns, pods: cgroup.NewPods(cgroup.Links)}
	f.pods.Refresh()
	if !f.pods.Here() {
		return nil, ErrNone
	}
	all, err := f.list()
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no process on this machine belongs to the pod %s", f)
	}
	return all, err
}

// String returns the patterns.
func (f *Follower) String() string {
	var all []string
	for _, p := range f.patterns {
		all = append(all, p.String())
	}
	return strings.Join(all, " or ")
}

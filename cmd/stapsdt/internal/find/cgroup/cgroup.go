//go:build linux

// Package cgroup finds the paths and containers of control groups by the IDs that the kernel gives
// them.
package cgroup

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Groups finds the control groups of version 2 that this process sees. Its methods may be
// called by any goroutine.
type Groups struct {
	root string // "" if there is no such file system
	// made returns the path of a group as the kernel reported it at its creation, or "".
	made func(id uint64) string
	pods *Pods

	mu    sync.Mutex
	known map[uint64]*group
	ended bool          // see End
	read  time.Time     // when all groups were last read
	took  time.Duration // how long that took
	stat  string        // the kernel's counts of groups at that time
}

// group is a control group, which may be gone.
type group struct {
	path      string    // "" if it is not known
	seen      time.Time // when it became known
	used      time.Time // when it was last looked up
	container Container
	decided   bool // whether container is final
}

// New finds the file system of control groups. made returns the path of a recently created
// group, which may be gone already, or "". pods are the pods of the machine.
func New(made func(id uint64) string, pods *Pods) *Groups {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	return &Groups{
		root: findRoot(string(mounts)), made: made, pods: pods, known: map[uint64]*group{},
	}
}

// findRoot returns the mount point of a file system of control groups of version 2.
func findRoot(mounts string) string {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return ""
}

// at returns a group that existed before a time. A group stays known when it is gone. An unknown
// group stays unknown, because its counts must not move to another label.
func (g *Groups) at(id uint64, before time.Time) *group {
	one := g.known[id]
	if one == nil && !g.read.After(before) {
		g.walk()
		one = g.known[id]
	}
	if one == nil {
		one = g.add(id, g.made(id))
	}
	one.used = time.Now()
	return one
}

func (g *Groups) add(id uint64, path string) *group {
	one := &group{path: path, seen: time.Now()}
	g.known[id] = one
	return one
}

// linkDelay is the time for which a new container may have no link: the kubelet creates the link
// after the container has started.
const linkDelay = 10 * time.Second

// Container returns the container of a group that existed before a time. The result is final unless
// pending is true. Then the link may still appear, and the counts of the group must not be shown
// yet, because they would belong to another series afterwards.
func (g *Groups) Container(id uint64, before time.Time) (c Container, pending bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.at(id, before)
	if one.decided {
		return one.container, false
	}
	c, pending = g.containerOf(one)
	one.container, one.decided = c, !pending
	return c, pending
}

func (g *Groups) containerOf(one *group) (c Container, pending bool) {
	if one.path == "" && g.root != "" {
		return Container{ID: Unknown}, false
	}
	inner := innermost(one.path)
	if inner == "" {
		return c, false
	}
	g.pods.Refresh()
	if c, ok := g.pods.Find(one.path); ok {
		return c, false
	}
	pending = g.pods.Here() && !g.ended && inPod(one.path) && time.Since(one.seen) < linkDelay
	return Container{ID: inner}, pending
}

// End makes the containers final as they are known now, for the last output.
func (g *Groups) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// Pods returns the pods of the machine.
func (g *Groups) Pods() *Pods { return g.pods }

// All returns the paths of all existing groups by ID.
func (g *Groups) All() map[uint64]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.walk()
}

const (
	// rereadShare limits the reading of all groups to 1/rereadShare of a processor.
	rereadShare = 20
	// rereadInterval is the interval at which groups are read even if their number stays the same.
	rereadInterval = 5 * time.Second
)

// Changed reports whether groups may have changed since all were last read. It costs
// little.
func (g *Groups) Changed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := time.Since(g.read)
	if g.root == "" || since < rereadShare*g.took {
		return false
	}
	return since > rereadInterval || g.numbers() != g.stat
}

// numbers returns the kernel's counts of groups.
func (g *Groups) numbers() string {
	text, _ := os.ReadFile(filepath.Join(g.root, "cgroup.stat"))
	return string(text)
}

const (
	// maxKnown limits the number of groups that are gone but known. Groups that were looked up
	// within goneTTL stay, because they have series.
	maxKnown = 1 << 16
	goneTTL  = time.Hour
)

// walk reads all groups. The ID of a group is the inode number of its directory.
func (g *Groups) walk() map[uint64]string {
	g.read, g.stat = time.Now(), g.numbers()
	defer func() { g.took = time.Since(g.read) }()
	found := map[uint64]string{}
	if g.root == "" {
		return found
	}
	_ = filepath.WalkDir(g.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() { // an error means that it is gone, or may not be read
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			found[stat.Ino] = "/" + strings.Trim(strings.TrimPrefix(path, g.root), "/")
		}
		return nil
	})
	for id, path := range found {
		if g.known[id] == nil {
			g.add(id, path)
		}
	}
	if len(g.known) > maxKnown {
		maps.DeleteFunc(g.known, func(id uint64, one *group) bool {
			_, exists := found[id]
			return !exists && time.Since(one.used) > goneTTL
		})
	}
	return found
}

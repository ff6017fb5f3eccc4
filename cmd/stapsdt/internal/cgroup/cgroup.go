//go:build linux

// Package cgroup knows the control groups by the numbers that the kernel has for them.
package cgroup

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Groups are the control groups of version 2 that this process sees. Their methods may be
// called by any goroutine.
type Groups struct {
	root string // "" if there is no such file system
	// made returns the path of a group by what the kernel said when it was made, or "".
	made func(id uint64) string

	mu    sync.Mutex
	paths map[uint64]string
	read  time.Time     // when all groups were read last
	took  time.Duration // and how long that took
	stat  string        // what the kernel said of their number then
}

// New finds where the control groups are. made returns the path of a group that was made
// lately, which may be gone already, or "".
func New(made func(id uint64) string) *Groups {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	return &Groups{root: findRoot(string(mounts)), made: made, paths: map[uint64]string{}}
}

// findRoot returns where a file system of control groups of version 2 is mounted.
func findRoot(mounts string) string {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return ""
}

// Path returns the path of a group that was there before a time, or "" if it is not known. A
// group is still known when it is gone. What is not known stays so, because what was counted
// for it must not move to another label.
func (g *Groups) Path(id uint64, before time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	path, ok := g.paths[id]
	if !ok && !g.read.After(before) {
		maps.Copy(g.paths, g.walk())
	}
	if !ok {
		if path, ok = g.paths[id]; !ok {
			path = g.made(id)
		}
		g.paths[id] = path
	}
	return path
}

// Unknown is the container of a control group that no longer exists and was never seen.
const Unknown = "unknown"

// Container returns the id of the container of a group that was there before a time, "" if the
// group is outside of one, or Unknown.
func (g *Groups) Container(id uint64, before time.Time) string {
	path := g.Path(id, before)
	if path == "" && g.root != "" {
		return Unknown
	}
	return containerOf(path)
}

// All returns the groups that there are now, and their paths.
func (g *Groups) All() map[uint64]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.walk()
	maps.Copy(g.paths, now)
	return now
}

const (
	// Reading all groups takes at most 1/rereadShare of a processor.
	rereadShare = 20
	// certainty is how often they are read even if their number stays the same.
	certainty = 5 * time.Second
)

// Changed reports whether there may be other groups than when all were read last. It costs
// little.
func (g *Groups) Changed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := time.Since(g.read)
	if g.root == "" || since < rereadShare*g.took {
		return false
	}
	return since > certainty || g.numbers() != g.stat
}

// numbers returns what the kernel says of the number of groups.
func (g *Groups) numbers() string {
	text, _ := os.ReadFile(filepath.Join(g.root, "cgroup.stat"))
	return string(text)
}

// maxKnown keeps the groups that are gone from becoming too many.
const maxKnown = 1 << 16

// walk reads all groups. The number of one is that of its directory.
func (g *Groups) walk() map[uint64]string {
	g.read, g.stat = time.Now(), g.numbers()
	defer func() { g.took = time.Since(g.read) }()
	if len(g.paths) > maxKnown {
		clear(g.paths)
	}
	found := map[uint64]string{}
	if g.root == "" {
		return found
	}
	_ = filepath.WalkDir(g.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone, or may not be read
		}
		if !entry.IsDir() {
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
	return found
}

// Every runtime names the groups of a container by its id: docker-ID.scope,
// cri-containerd-ID.scope, libpod-ID.scope, or just ID.
var id = regexp.MustCompile(`(?:^|[-/.:])([0-9a-f]{64})(?:$|[-/.:])`)

// containerOf returns the id of the innermost container that a path of a group is in, or "".
func containerOf(path string) string {
	found := ""
	for part := range strings.SplitSeq(path, "/") {
		if match := id.FindStringSubmatch(part); match != nil {
			found = match[1]
		}
	}
	return found
}

//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Links is the directory in which the kubelet links each container's name to its log. The target of
// a link names the pod and the container, and the link's own name contains the ID:
//
//	POD_NAMESPACE_CONTAINER-ID.log -> /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log
//
// It needs neither the API server nor the runtime, whose socket only root may use.
const Links = "/var/log/containers"

// Pods finds the containers of the pods of this machine by the kubelet's links. Its methods may be
// called by any goroutine.
type Pods struct {
	dir string

	mu     sync.Mutex
	here   bool             // whether the directory could be read
	stamp  time.Time        // its modification time when it was last read
	read   time.Time        // when it was last read
	links  map[string]*link // keyed by name
	ids    map[string]*link // keyed by container ID
	cut    []*link          // links whose names have no room for the whole ID
	living int              // the number of existing links
}

// link holds the data of a link. Its ID may be only the beginning of the container's ID.
type link struct {
	Container
	// gone is the time at which the link no longer existed, or zero. Such a link is kept, because
	// its container may be looked up later for older events.
	gone time.Time
}

// maxGone is the maximum number of links that are kept although they no longer exist.
const maxGone = 8192

// NewPods returns the pods by the links in a directory, which may not exist.
func NewPods(dir string) *Pods {
	return &Pods{dir: dir, links: map[string]*link{}, ids: map[string]*link{}}
}

// coarse is more than the resolution of modification times in file systems.
const coarse = 50 * time.Millisecond

// Refresh reads new links, and reports whether links have come or gone since the last call. It
// costs one system call if nothing has changed.
func (p *Pods) Refresh() (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.dir)
	if err != nil {
		p.here = false
		return false
	}
	// A directory that was changed just before it was read may have changed again with the same
	// time.
	if p.here && info.ModTime().Equal(p.stamp) && p.read.Sub(p.stamp) > coarse {
		return false
	}
	p.read, p.stamp = time.Now(), info.ModTime()
	entries, err := os.ReadDir(p.dir)
	p.here = err == nil
	return p.here && p.update(entries)
}

// update replaces the links by those of a directory, and reports whether any have come or gone.
func (p *Pods) update(entries []os.DirEntry) (changed bool) {
	here := make(map[string]bool, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		here[name] = true
		if l := p.links[name]; l != nil && l.gone.IsZero() {
			continue
		}
		target, err := os.Readlink(filepath.Join(p.dir, name))
		if err != nil {
			continue // it is gone, or not a link
		}
		if c, ok := parseLink(name, target); ok {
			p.links[name] = &link{Container: c}
			changed = true
		}
	}
	for name, l := range p.links {
		if l.gone.IsZero() && !here[name] {
			l.gone = p.read
			changed = true
		}
	}
	if changed {
		p.index()
	}
	return changed
}

// index indexes the links by ID. If too many links are gone, it removes the links that have been
// gone longest.
func (p *Pods) index() {
	var gone []string
	for name, l := range p.links {
		if !l.gone.IsZero() {
			gone = append(gone, name)
		}
	}
	p.living = len(p.links) - len(gone)
	if len(gone) > maxGone {
		slices.SortFunc(
			gone, func(a, b string) int { return p.links[a].gone.Compare(p.links[b].gone) },
		)
		for _, name := range gone[:len(gone)-maxGone/2] {
			delete(p.links, name)
		}
	}
	clear(p.ids)
	p.cut = p.cut[:0]
	for _, l := range p.links {
		if len(l.ID) == idSize {
			p.ids[l.ID] = l
		} else {
			p.cut = append(p.cut, l)
		}
	}
}

const (
	idSize = 64
	// maxLink is the length to which the kubelet cuts a name, before ".log".
	maxLink = 251
)

// parseLink parses a link. If its name is too long, the ID is only the beginning of the container's
// ID, and can be "".
func parseLink(name, target string) (c Container, ok bool) {
	of := filepath.Dir(target)
	words := strings.Split(filepath.Base(filepath.Dir(of)), "_")
	stem, isLog := strings.CutSuffix(name, ".log")
	if len(words) != 3 || !isLog {
		return c, false
	}
	c = Container{Namespace: words[0], Pod: words[1], UID: words[2], Name: filepath.Base(of)}
	before := c.Pod + "_" + c.Namespace + "_" + c.Name + "-"
	rest, whole := strings.CutPrefix(stem, before)
	switch {
	case whole && len(rest) == idSize && isHex(rest):
		c.ID = rest
		return c, true
	case len(stem) == maxLink && (whole && isHex(rest) || strings.HasPrefix(before, stem)):
		c.ID = rest
		if !whole {
			c.ID = ""
		}
		return c, true
	}
	return c, false
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// Here reports whether this machine runs pods, by the last Refresh.
func (p *Pods) Here() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.here
}

// Any reports whether there are pods.
func (p *Pods) Any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.living > 0
}

// pathOf returns the path of a process's control group of version 2, or "". If the reader has a
// cgroup namespace of its own, the path leads out of it by "..", and still contains the container's
// part.
func pathOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// Find returns the container of a group. A container can create groups below its own, with any
// names. Therefore the outermost container with a link counts, and only if it belongs to the pod
// with the outermost group: before the container's own link exists, another container's link could
// take its place.
func (p *Pods) Find(path string) (c Container, ok bool) {
	if forgeable(path) {
		return c, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range places(path) {
		if l := p.ids[at.id]; l != nil && (at.uid == "" || at.uid == l.UID) {
			return l.Container, true
		}
		if c, ok := p.findCut(at); ok {
			return c, true
		}
	}
	return c, false
}

// findCut finds a container whose link has only a part of its ID, by the pod's UID and that part.
// If several match, the container has no name.
func (p *Pods) findCut(at place) (c Container, ok bool) {
	for _, l := range p.cut {
		if l.UID != at.uid || !strings.HasPrefix(at.id, l.ID) {
			continue
		}
		if ok && l.Name != c.Name {
			c.Name = ""
			return c, true
		}
		c, ok = l.Container, true
		c.ID = at.id
	}
	return c, ok
}

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
// a link names the pod and the container, and its own name has the ID:
//
//	POD_NAMESPACE_CONTAINER-ID.log -> /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log
//
// It needs neither the API server nor the runtime, whose socket only root may use.
const Links = "/var/log/containers"

// Pods are the containers of the pods of this machine, by the kubelet's links. Its methods may be
// called by any goroutine.
type Pods struct {
	dir string

	mu     sync.Mutex
	here   bool             // whether the directory could be read
	stamp  time.Time        // its time of change, when it was read last
	read   time.Time        // when that was
	links  map[string]*link // by their names
	ids    map[string]*link // by their IDs
	cut    []*link          // those whose names have no room for the whole ID
	living int              // how many links there are now
	change uint64           // counts what has changed
}

// link is what a link says, of which the ID may be the beginning only.
type link struct {
	Container
	// gone is when the link was no longer there, or zero. It is kept: what its container has fired may
	// be asked for later.
	gone time.Time
}

// maxGone is how many links are kept that are no longer there.
const maxGone = 8192

// NewPods returns the pods by the links in a directory, which need not exist.
func NewPods(dir string) *Pods {
	return &Pods{dir: dir, links: map[string]*link{}, ids: map[string]*link{}}
}

// coarse is more than the step of the time that file systems give to a change.
const coarse = 50 * time.Millisecond

// Refresh reads the links that are new, and reports whether any has come or gone since the last
// call. It costs one system call if nothing has changed.
func (p *Pods) Refresh() (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.change
	info, err := os.Stat(p.dir)
	if err != nil {
		p.here = false
		return false
	}
	// What was changed just before it was read can have been changed after that, too.
	if p.here && info.ModTime().Equal(p.stamp) && p.read.Sub(p.stamp) > coarse {
		return false
	}
	p.read, p.stamp = time.Now(), info.ModTime()
	names, err := readNames(p.dir)
	if p.here = err == nil; err != nil {
		return p.change != was
	}
	p.update(names)
	return p.change != was
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// update makes the links those with these names.
func (p *Pods) update(names []string) {
	here := make(map[string]bool, len(names))
	was := p.change
	for _, name := range names {
		here[name] = true
		if l := p.links[name]; l != nil && l.gone.IsZero() {
			continue
		}
		target, err := os.Readlink(filepath.Join(p.dir, name))
		if err != nil {
			continue // it is gone, or no link
		}
		if c, ok := parseLink(name, target); ok {
			p.links[name] = &link{Container: c}
			p.change++
		}
	}
	for name, l := range p.links {
		if l.gone.IsZero() && !here[name] {
			l.gone = p.read
			p.change++
		}
	}
	if p.change != was {
		p.index()
	}
}

// index makes the links known by their IDs, and forgets those that are gone longest if they are too many.
func (p *Pods) index() {
	var gone []string
	for name, l := range p.links {
		if !l.gone.IsZero() {
			gone = append(gone, name)
		}
	}
	p.living = len(p.links) - len(gone)
	if len(gone) > maxGone {
		slices.SortFunc(gone, func(a, b string) int { return p.links[a].gone.Compare(p.links[b].gone) })
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

// parseLink returns what a link says: of a name that is too long, only the beginning of the ID, which
// can be "".
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

// pathOf returns the path of a process's control group of version 2, or "". Where the reader has a
// namespace of control groups, the path leads out of it by "..", and still has the container's part.
func pathOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// Find returns the container of a group. A container can make groups below its own, with any names:
// therefore the outermost one that has a link counts, and only if it is of the pod whose group is the
// outermost. Before the link of the container itself is there, another's could take its place.
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

// findCut finds a container whose link has lost a part of its ID: by the pod's UID, and what is left
// of the ID. If that leaves a choice, the container has no name.
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

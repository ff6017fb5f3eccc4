//go:build linux

package cgroup

import (
	"fmt"
	"path"
	"strings"
)

// Pattern selects containers by the names of their pods, in which * stands for any characters.
type Pattern struct {
	Namespace, Pod string
	Container      string // "" for all containers of the pod
}

// ParsePattern returns the pattern NAMESPACE/POD or NAMESPACE/POD/CONTAINER.
func ParsePattern(text string) (p Pattern, err error) {
	words := strings.Split(text, "/")
	wrong := len(words) < 2 || len(words) > 3
	for _, word := range words {
		_, err := path.Match(word, "")
		wrong = wrong || word == "" || err != nil
	}
	if wrong {
		return p, fmt.Errorf("takes NAMESPACE/POD or NAMESPACE/POD/CONTAINER, and not %q", text)
	}
	p.Namespace, p.Pod = words[0], words[1]
	if len(words) == 3 {
		p.Container = words[2]
	}
	return p, nil
}

func (p Pattern) String() string {
	return strings.TrimSuffix(p.Namespace+"/"+p.Pod+"/"+p.Container, "/")
}

// Match reports whether a container is selected.
func (p Pattern) Match(c *Container) bool {
	if !c.InPod() {
		return false
	}
	for _, part := range [][2]string{{p.Namespace, c.Namespace}, {p.Pod, c.Pod}, {p.Container, c.Name}} {
		if ok, _ := path.Match(part[0], part[1]); !ok && part[0] != "" {
			return false
		}
	}
	return true
}

// OfProcess returns the container of a process, or the zero value.
func (p *Pods) OfProcess(pid int) Container {
	c, _ := p.Find(pathOf(pid))
	return c
}

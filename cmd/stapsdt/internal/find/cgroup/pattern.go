//go:build linux

package cgroup

import (
	"path"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// Matches reports whether a pattern selects the container.
func (c *Container) Matches(p query.PodPattern) bool {
	if !c.InPod() {
		return false
	}
	for _, part := range [][2]string{
		{p.Namespace, c.Namespace}, {p.Pod, c.Pod}, {p.Container, c.Name},
	} {
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

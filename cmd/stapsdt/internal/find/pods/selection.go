//go:build linux

// Package pods selects the processes of the pods of this machine.
package pods

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Selection holds the pods of this machine that match patterns, or all if there are none.
type Selection struct {
	*cgroup.Pods
	patterns []query.PodPattern
}

// Select returns the selection by patterns, of the pods that exist now. Refresh looks for others.
func Select(patterns []query.PodPattern) *Selection { return &Selection{machine(), patterns} }

// Here reports whether this machine runs pods, and Any whether there are any now.
func Here() bool { return machine().Here() }

// Any reports whether there are pods.
func Any() bool { return machine().Any() }

func machine() *cgroup.Pods {
	p := cgroup.NewPods(cgroup.Links)
	p.Refresh()
	return p
}

// ErrNone means that this machine runs no pods, or that they are not visible.
var ErrNone = errors.New("this machine has no pods: there is no " + cgroup.Links + " that can be read")

// Selects reports whether a pattern selects a container.
func (s *Selection) Selects(c *cgroup.Container) bool {
	return slices.ContainsFunc(s.patterns, func(p query.PodPattern) bool { return c.Matches(p) })
}

// Processes returns the selected processes.
func (s *Selection) Processes() ([]int, error) {
	all, err := proc.Processes()
	return slices.DeleteFunc(all, func(pid int) bool { return !s.HasProcess(pid) }), err
}

// HasProcess reports whether a process is selected.
func (s *Selection) HasProcess(pid int) bool {
	if len(s.patterns) == 0 {
		return true
	}
	c := s.OfProcess(pid)
	return s.Selects(&c)
}

// PIDs returns the processes that patterns select now, or an error if there are none.
func PIDs(patterns []query.PodPattern) ([]int, error) {
	s := Select(patterns)
	if !s.Here() {
		return nil, ErrNone
	}
	all, err := s.Processes()
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no process on this machine belongs to the pod %s", s)
	}
	return all, err
}

// String returns the patterns.
func (s *Selection) String() string { return spec.Join(s.patterns, " or ") }

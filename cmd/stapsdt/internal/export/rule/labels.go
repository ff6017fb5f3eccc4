//go:build linux

package rule

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"
)

// The expressions that identify the process.
const (
	Executable = "executable"
	Cgroup     = "cgroup"
)

// ContainerLabels are the labels of a metric that follow from the container.
type ContainerLabels struct {
	// Names are the names of all these labels, which the rule may not use otherwise.
	Names []string
	asked []string
	ids   bool // whether containers in pods have IDs too
}

// NewContainerLabels returns the container labels of a metric: the labels that the rule asks for, and each of
// rules.PodLabels unless the rule has its own label with the name.
func NewContainerLabels(m *rules.Metric) ContainerLabels {
	l := ContainerLabels{ids: m.PodIDs}
	for _, name := range rules.ProcessLabels {
		asked := slices.Contains(m.Process, name)
		own := slices.ContainsFunc(m.By, func(by rules.Label) bool { return by.Name == name })
		switch {
		case name == rules.Executable || own:
			continue
		case asked:
			l.asked = append(l.asked, name)
			l.Names = append(l.Names, name)
		case slices.Contains(rules.PodLabels, name):
			l.Names = append(l.Names, name)
		}
	}
	return l
}

// Asked reports whether the rule asks for any.
func (l *ContainerLabels) Asked() bool { return len(l.asked) > 0 }

// Whole reports whether the labels tell all containers apart.
func (l *ContainerLabels) Whole() bool {
	return !slices.ContainsFunc(rules.PodLabels, func(name string) bool { return !slices.Contains(l.asked, name) })
}

// Append appends the values for a container.
func (l *ContainerLabels) Append(values []string, c *cgroup.Container) []string {
	for _, name := range l.Names {
		value := ""
		if slices.Contains(l.asked, name) {
			value = l.value(name, c)
		}
		values = append(values, value)
	}
	return values
}

func (l *ContainerLabels) value(name string, c *cgroup.Container) string {
	switch name {
	case rules.Namespace:
		return c.Namespace
	case rules.Pod:
		return c.Pod
	case rules.Container:
		return c.Name
	}
	if c.InPod() && !l.ids {
		return ""
	}
	return c.ID
}

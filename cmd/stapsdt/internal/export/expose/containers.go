//go:build linux

package expose

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
)

// divide returns the families without the series of containers, and the families of each container.
// An OTLP resource has the names of the container, so the series lose these labels.
func divide(families []Family) (rest []Family, of map[cgroup.Container][]Family) {
	of = map[cgroup.Container][]Family{}
	for i := range families {
		f := &families[i]
		if !f.PerContainer {
			rest = append(rest, f.without(f.isEmptyLabel, f.Series))
			continue
		}
		parts := map[cgroup.Container][]Series{}
		for _, s := range f.Series {
			parts[s.Container] = append(parts[s.Container], s)
		}
		for c, series := range parts {
			part := f.without(f.isContainerLabel, series)
			if c == (cgroup.Container{}) {
				rest = append(rest, part)
			} else {
				of[c] = append(of[c], part)
			}
		}
	}
	return rest, of
}

// isContainerLabel reports whether the i-th label names the container.
func (f *Family) isContainerLabel(i int) bool {
	return i < len(f.Labels) && slices.Contains(f.ContainerLabels, f.Labels[i])
}

// isEmptyLabel reports whether the i-th label names the container, and is empty in all series. Only
// Prometheus needs it.
func (f *Family) isEmptyLabel(i int) bool {
	return f.isContainerLabel(i) &&
		!slices.ContainsFunc(
			f.Series, func(s Series) bool { return i < len(s.Values) && s.Values[i] != "" },
		)
}

// without returns the family with the given series, and without the labels that drop selects.
func (f *Family) without(drop func(i int) bool, series []Series) Family {
	kept := func(all []string) (rest []string) {
		for i, one := range all {
			if !drop(i) {
				rest = append(rest, one)
			}
		}
		return rest
	}
	part := *f
	part.Labels, part.ContainerLabels, part.Series = kept(f.Labels), nil, slices.Clone(series)
	for i := range part.Series {
		part.Series[i].Values = kept(part.Series[i].Values)
	}
	return part
}

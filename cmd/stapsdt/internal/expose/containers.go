//go:build linux

package expose

import (
	"context"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// containerFamilies are the series of a container.
type containerFamilies struct {
	of       cgroup.Container
	families []Family
}

// divide returns the series that belong to no container, and those of each. Their resources say what the
// labels of containers say.
func divide(families []Family) (rest []Family, of []*containerFamilies) {
	known := map[cgroup.Container]*containerFamilies{}
	for i := range families {
		f := &families[i]
		if !f.PerContainer {
			rest = append(rest, f.withoutEmpty())
			continue
		}
		like := *f
		like.Labels, like.ContainerLabels, like.Series = without(f.Labels, f.isContainerLabel), nil, nil
		parts := map[cgroup.Container]*Family{}
		for _, s := range f.Series {
			s.Values = without(s.Values, f.isContainerLabel)
			part := parts[s.Container]
			if part == nil {
				one := like
				part = &one
				parts[s.Container] = part
			}
			part.Series = append(part.Series, s)
		}
		for c, part := range parts {
			if c == (cgroup.Container{}) {
				rest = append(rest, *part)
				continue
			}
			if known[c] == nil {
				known[c] = &containerFamilies{of: c}
				of = append(of, known[c])
			}
			known[c].families = append(known[c].families, *part)
		}
	}
	for _, c := range of {
		slices.SortFunc(c.families, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	}
	return rest, of
}

// isContainerLabel reports whether the i-th label is one of containers.
func (f *Family) isContainerLabel(i int) bool {
	return i < len(f.Labels) && slices.Contains(f.ContainerLabels, f.Labels[i])
}

// withoutEmpty returns a family without the labels of containers that no series has: only Prometheus needs them.
func (f *Family) withoutEmpty() Family {
	isEmpty := func(i int) bool {
		return f.isContainerLabel(i) && !slices.ContainsFunc(f.Series, func(s Series) bool { return i < len(s.Values) && s.Values[i] != "" })
	}
	rest := *f
	rest.Labels, rest.ContainerLabels, rest.Series = without(f.Labels, isEmpty), nil, slices.Clone(f.Series)
	for i := range rest.Series {
		rest.Series[i].Values = without(rest.Series[i].Values, isEmpty)
	}
	return rest
}

// without returns the names or the values of labels but for some. Those of an overflow are nil.
func without(all []string, drop func(i int) bool) (rest []string) {
	if all == nil {
		return nil
	}
	rest = []string{}
	for i, one := range all {
		if !drop(i) {
			rest = append(rest, one)
		}
	}
	return rest
}

// containerMetrics are the metrics of a container for the SDK.
type containerMetrics struct {
	of     cgroup.Container
	scopes []metricdata.ScopeMetrics
}

// containerExporter sends the metrics of containers after those of the exporter. A message of the SDK has
// one resource, so that each container has a message of its own, all by one connection.
type containerExporter struct {
	sdk.Exporter
	*producer
}

// Export sends what the producer has produced last. The SDK calls both one after the other.
func (c *containerExporter) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	if err := c.Exporter.Export(ctx, metrics); err != nil {
		return err
	}
	for _, one := range c.containers {
		part := &metricdata.ResourceMetrics{Resource: containerResource(metrics.Resource, &one.of), ScopeMetrics: one.scopes}
		if err := c.Exporter.Export(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

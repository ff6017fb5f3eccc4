//go:build linux

package expose

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	app     = cgroup.Container{ID: "0123", Namespace: "shop", Pod: "web-0", UID: "u", Name: "app"}
	before  = cgroup.Container{ID: "0122", Namespace: "shop", Pod: "web-0", UID: "u", Name: "app"} // before a restart
	docker  = cgroup.Container{ID: "4567"}
	podName = []string{"namespace", Workload, "pod", "container", ContainerID}
)

// inContainers is a metric of two containers of a pod, one outside of pods, and a process outside of all.
func inContainers() fixed {
	labels := append([]string{"route"}, podName...)
	return fixed{
		{Name: "n_total", Labels: labels, ContainerLabels: podName, PerContainer: true, Series: []Series{
			{Values: []string{"/", "shop", "web", "web-0", "app", ""}, Container: app, Value: 1},
			{Values: []string{"/", "shop", "web", "web-0", "app", ""}, Container: before, Value: 10},
			{Values: []string{"/", "", "", "", "", "4567"}, Container: docker, Value: 100},
			{Values: []string{"/", "", "", "", "", ""}, Value: 1000},
			{Overflow: true, Value: 10000},
		}},
		{Name: "m_total", Labels: []string{"namespace", "pod", "container"}, ContainerLabels: []string{"namespace", "pod", "container"}, Series: []Series{{Values: []string{"", "", ""}, Value: 5}}},
	}
}

// TestContainerLabels: the labels of pods are written though they are empty, also of what has no room. A
// container that was restarted continues its series.
func TestContainerLabels(t *testing.T) {
	found := scrape(t, handler(t, inContainers()), protobufs)
	assert.Equal(t, map[string]float64{
		`container="app",namespace="shop",pod="web-0",route="/",workload="web"`: 11,
		`container="",container_id="4567",namespace="",pod="",route="/"`:        100,
		`container="",namespace="",pod="",route="/"`:                            1000,
		`container="",namespace="",otel_metric_overflow="true",pod=""`:          10000,
	}, series(found["n_total"]))
	assert.Equal(t, map[string]float64{`container="",namespace="",pod=""`: 5}, series(found["m_total"]))
}

// TestContainersByOTLP: each container is a resource, and an instance, of its own.
func TestContainersByOTLP(t *testing.T) {
	t.Setenv("STAPSDT_NODE_NAME", "n1")
	c := collect(t, "127.0.0.1:0")
	o, _ := startOTLP(t, "http://"+c.addr, inContainers(), silent)
	require.NoError(t, shutdown(t, o))
	type resource struct{ namespace, workload, node, pod, uid, name, id, process string }
	sums, instances := map[resource]float64{}, map[string]resource{}
	for _, m := range c.resources {
		of := attributes(m.Resource.Attributes)
		key := resource{of["k8s.namespace.name"], of["k8s.workload.name"], of["k8s.node.name"], of["k8s.pod.name"], of["k8s.pod.uid"], of["k8s.container.name"], of["container.id"], of["process.pid"]}
		for _, scope := range m.ScopeMetrics {
			for _, one := range scope.Metrics {
				if one.Name == "m_total" {
					assert.Empty(t, one.GetSum().DataPoints[0].Attributes, "labels that are empty")
				}
				if one.Name != "n_total" {
					continue
				}
				sums[key] = 0
				for _, point := range one.GetSum().DataPoints {
					sums[key] += point.GetAsDouble()
					labels := attributes(point.Attributes)
					for _, name := range podName {
						assert.NotContains(t, labels, name)
					}
				}
			}
		}
		assert.NotEmpty(t, of["service.instance.id"])
		other, taken := instances[of["service.instance.id"]]
		assert.True(t, !taken || other == key, "%v has the instance of %v", key, other)
		instances[of["service.instance.id"]] = key
	}
	text := func(s string) string { return `string_value:"` + s + `"` }
	pod := func(id string) resource {
		return resource{text("shop"), text("web"), text("n1"), text("web-0"), text("u"), text("app"), text(id), ""}
	}
	var own resource
	for r := range sums {
		if r.process != "" {
			own = r
		}
	}
	assert.Equal(t, map[resource]float64{pod("0123"): 1, pod("0122"): 10, {node: text("n1"), id: text("4567")}: 100, own: 11000}, sums)
	assert.Equal(t, resource{node: text("n1"), process: own.process}, own)
}

//go:build linux

package kubernetes

import "testing"

// TestPodMonitor: the PodMonitor is one of Prometheus's operator, whose module defines it.
func TestPodMonitor(t *testing.T) {
	kubectl(t, "apply --server-side -f %s", *crd)
	await(t, func() error {
		_, err := runKubectl("", "get", "podmonitors")
		return err
	})
	kubectl(t, "apply --dry-run=server --validate=strict -k %s/podmonitor", packaging)
}

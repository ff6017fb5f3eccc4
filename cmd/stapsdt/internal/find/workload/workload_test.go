package workload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOf: the names are those of real pods, and of the controllers' rules at their limits.
func TestOf(t *testing.T) {
	const name57 = "a-deployment-with-a-name-that-has-as-many-as-57-bytes-end"
	name58 := name57 + "x"
	for pod, want := range map[string]string{
		// Deployments
		"shop-6c95c5c465-h7lk6":             "shop",
		"web-66d4fc8747-xvd8j":              "web",
		"plain-767f845d84-m6fdp":            "plain",
		"coredns-5d78c9869d-vq2xk":          "coredns",
		"metrics-server-58c7c9c4d9-2mrzd":   "metrics-server",
		"nginx-deployment-7fb96c846b-4d5jq": "nginx-deployment",
		"web-2-66d4fc8747-xvd8j":            "web-2",
		"api-v1-97f5d6f-ghx4t":              "api-v1", // a hash of 7 digits
		// ReplicaSets, ReplicationControllers and DaemonSets
		"frontend-gl42z":      "frontend",
		"kube-proxy-9xk2c":    "kube-proxy",
		"stapsdt-fthlt":       "stapsdt",
		"node-exporter-2qlbs": "node-exporter",
		// StatefulSets
		"web-0":            "web",
		"postgres-main-12": "postgres-main",
		"web-24567":        "web",
		"mysql-0":          "mysql",
		// Jobs, indexed Jobs and CronJobs
		"exact-k2x7z":                   "exact",
		"pi-5rwd7":                      "pi",
		"train-0-9zq4w":                 "train",
		"train-117-9zq4w":               "train",
		"backup-29373840-x2b5p":         "backup",
		"backup-29373840-0-x2b5p":       "backup",
		"backup-29373840-17-x2b5p":      "backup",
		"hello-1610000000-7bzvs":        "hello",
		"nightly-report-29373840-hjtr4": "nightly-report",
		// static pods
		"etcd-node1":           "etcd",
		"kube-apiserver-node1": "kube-apiserver",
		// pods of no controller
		"web":         "web",
		"launched":    "launched",
		"debug-shell": "debug-shell",
		"my-app-v2":   "my-app-v2",
		"h7lk6":       "h7lk6",
		"-h7lk6":      "-h7lk6",
		"":            "",
		// names that were cut
		name57 + "-h7lk6":                  name57,
		name58 + "h7lk6":                   name58,
		name57[:47] + "-66d4fc8747h7lk6":   name57[:47],
		name57[:50] + "-66d4fc8" + "h7lk6": name57[:50],
		name57[:52] + "-29373" + "x2b5p":   name57[:52],
		name57[:53] + "-2-x2b5p":           name57[:53],
		name57[:52] + "x2b5p":              name57[:52] + "x2b5p", // shorter than a name that was cut
		// what the name alone does not tell: see Of
		"migrate-2-abcde":       "migrate-2-abcde",
		"migrate-2-bcdfg":       "migrate",
		"report-20240131-k2x7z": "report",
	} {
		assert.Equal(t, want, Of(pod, "node1"), pod)
	}
	assert.Equal(t, "etcd-node2", Of("etcd-node2", "node1"))
	assert.Equal(t, "etcd-node1", Of("etcd-node1", ""))
	assert.Equal(t, "etcd-ip-10-0-0-7.ec2.internal", Of("etcd-ip-10-0-0-7.ec2.internal", ""))
	assert.Equal(t, "etcd", Of("etcd-ip-10-0-0-7.ec2.internal", "ip-10-0-0-7.ec2.internal"))
	assert.Equal(t, strings.Repeat("9", 70), Of(strings.Repeat("9", 70), ""))
}

//go:build unix

package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decode decodes a value of a test.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// runningPod returns a running pod of a node, with labels and an owner, KIND/NAME. Its container is like that of shop.
func runningPod(t *testing.T, name, node, labels, owner string) pod {
	kind, of, _ := strings.Cut(owner, "/")
	return decode[pod](t, fmt.Sprintf(`{
		"metadata": {"name": %q, "namespace": "default", "annotations": {"labels": %q}, "ownerReferences": [{"kind": %q, "name": %q, "controller": true}]},
		"spec": {"nodeName": %q, "containers": [{"name": "app", "securityContext": {"runAsUser": 1000, "runAsGroup": 2000}}]},
		"status": {"phase": "Running", "containerStatuses": [{"name": "app", "containerID": "containerd://%s", "state": {"running": {}}}]}}`,
		name, labels, kind, of, node, shopID))
}

// workloads returns a cluster with a pod of each kind of workload. Two Deployments and a pod without an owner have the same labels.
func workloads(t *testing.T) cluster {
	c := testCluster()
	for _, o := range []string{
		`{"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}`,
		`{"kind": "Deployment", "metadata": {"name": "none", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "none"}}}}`,
		`{"kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": "default", "annotations": {"labels": "app=web"}, "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": true}]},
		  "spec": {"selector": {"matchLabels": {"app": "web", "hash": "1"}}}}`,
		`{"kind": "ReplicaSet", "metadata": {"name": "other-1", "namespace": "default", "annotations": {"labels": "app=web"}, "ownerReferences": [{"kind": "Deployment", "name": "other", "controller": true}]}}`,
		`{"kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"}, "spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["db"]}, {"key": "old", "operator": "DoesNotExist"}]}}}`,
		`{"kind": "Job", "metadata": {"name": "once", "namespace": "default", "ownerReferences": [{"kind": "CronJob", "name": "often", "controller": true}]}, "spec": {"selector": {"matchLabels": {"controller-uid": "7"}}}}`,
		`{"kind": "Job", "metadata": {"name": "alone", "namespace": "default"}}`,
		`{"kind": "CronJob", "metadata": {"name": "often", "namespace": "default"}}`,
	} {
		c.Objects = append(c.Objects, decode[object](t, o))
	}
	c.Pods = append(c.Pods,
		runningPod(t, "web-1-a", "n1", "app=web; app=web,hash=1", "ReplicaSet/web-1"),
		runningPod(t, "other-1-a", "n1", "app=web", "ReplicaSet/other-1"),
		runningPod(t, "stray", "n1", "app=web", ""),
		runningPod(t, "db-0", "n1", "tier in (db),!old", "StatefulSet/db"),
		runningPod(t, "once-x", "n1", "controller-uid=7; job-name in (once)", "Job/once"),
	)
	return c
}

// TestTarget: a pod or a workload is named as for kubectl, and the pods of a workload are those that it owns.
func TestTarget(t *testing.T) {
	for args, want := range map[string]string{
		"shop":                      "shop/app",
		"pod/shop":                  "shop/app",
		"po/shop -c app -n default": "shop/app",
		"default/shop":              "shop/app",
		"deploy/web":                "web-1-a/app",
		"deployment.apps/web --namespace=default": "web-1-a/app",
		"Deployment/web -c app":                   "web-1-a/app",
		"rs/web-1":                                "web-1-a/app",
		"sts/db":                                  "db-0/app",
		"job/once":                                "once-x/app",
		"cj/often":                                "once-x/app",
		"-l tier+in+(db),!old":                    "db-0/app",
		"-A -l tier+in+(db),!old":                 "db-0/app",
		"shop -c side":                            "stapsdt: the pod default/shop has no container side, but app",
		"deploy/web -n other":                     `stapsdt: kubectl: deployments.apps "web" not found`,
		"deploy/none":                             "stapsdt: the Deployment none has no running pod: not found",
		"rs/other-1":                              "stapsdt: the ReplicaSet other-1 has no selector",
		"-l app=none":                             "stapsdt: the selector app=none has no running pod: not found",
	} {
		words := strings.Fields(args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "+", " ")
		}
		r := newRun(t, workloads(t), append([]string{"list"}, words...)...)
		if status := r.wait(); strings.HasPrefix(want, "stapsdt: ") {
			assert.NotZero(t, status, args)
			assert.Contains(t, r.err.String(), want, args)
			continue
		}
		assert.Contains(t, r.calls(), " --pod=default/"+want+" --node=n1 -- list", "%s: %s", args, &r.err)
	}
}

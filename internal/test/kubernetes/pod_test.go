//go:build linux

package kubernetes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// pod is a pod, as far as tests ask.
type pod struct {
	Metadata struct{ Name, UID, DeletionTimestamp string }
	Spec     struct {
		NodeName  string
		Resources struct{ Limits map[string]string }
	}
	Status struct {
		PodIP             string
		ContainerStatuses []containerStatus
	}
}

// containerStatus describes the lives of a container.
type containerStatus struct {
	RestartCount     int
	State, LastState struct {
		Waiting    struct{ Reason, Message string }
		Terminated struct{ Reason string }
	}
}

// pods returns the pods that the words of a command line of kubectl get pods select.
func pods(t testing.TB, format string, args ...any) []pod {
	t.Helper()
	var list struct{ Items []pod }
	out := kubectl(t, "get pods -o json "+format, args...)
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	return list.Items
}

// names returns the names of pods.
func names(pods []pod) (all []string) {
	for _, p := range pods {
		all = append(all, p.Metadata.Name)
	}
	return all
}

// podOptions describe a pod of the namespace work, which runs the worker.
type podOptions struct {
	Name            string
	Args            []string
	Records         bool
	Limit, PodLimit string // of memory: of its container, and of the pod
}

// start starts the pod until the test is over.
func (o podOptions) start(t testing.TB) {
	t.Helper()
	start(t, "pod", o)
}

// awaitReady waits until the pod is ready.
func (o podOptions) awaitReady(t testing.TB) {
	t.Helper()
	kubectl(t, "-n work wait --for=condition=Ready pod/%s --timeout=120s", o.Name)
}

// get returns the pod as it is now.
func (o podOptions) get(t testing.TB) (p pod) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "-n work get pod %s -o json", o.Name)), &p))
	return p
}

// status returns the status of the pod's container, which has none before it begins.
func (o podOptions) status(t testing.TB) containerStatus {
	t.Helper()
	if all := o.get(t).Status.ContainerStatuses; len(all) > 0 {
		return all[0]
	}
	return containerStatus{}
}

//go:build linux

package cgroup

import (
	"iter"
	"os"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/workload"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Container is a container, and the pod that it belongs to. The zero value stands for a process
// outside of containers.
type Container struct {
	// ID has 64 hexadecimal digits. It is Unknown for a control group that was gone before it was
	// seen.
	ID string
	// Namespace, Pod and UID identify the pod, and Name is the container's name in it. They are ""
	// outside of pods. Only Name is "" if the pod is known but the container is not.
	Namespace, Pod, UID, Name string
}

// Unknown is the ID of the container of a control group that no longer exists and was never seen.
const Unknown = "unknown"

// InPod reports whether the container belongs to a pod.
func (c *Container) InPod() bool { return c.Pod != "" }

// AsPod returns the names of the container, or nil outside of pods.
func (c *Container) AsPod() *recording.Pod {
	if !c.InPod() {
		return nil
	}
	return &recording.Pod{
		Namespace: c.Namespace, Name: c.Pod, Container: c.Name,
		Workload: c.Workload(), Node: Node(),
	}
}

// Workload returns the name of the workload that the pod belongs to, as far as the pod's name tells
// it, or "" outside of pods.
func (c *Container) Workload() string { return workload.Of(c.Pod, Node()) }

// Node returns the name of this node of Kubernetes, or "" if it is unknown. The downward API sets
// the variable.
func Node() string { return os.Getenv("STAPSDT_NODE_NAME") }

// Path returns NAMESPACE/POD/CONTAINER, or "" outside of pods.
func (c *Container) Path() string {
	if !c.InPod() {
		return ""
	}
	return c.Namespace + "/" + c.Pod + "/" + c.Name
}

// Sidecar returns the container that the environment names: the container of the programs beside an
// exporter in their pod. The downward API sets the variables. There is no other source for the
// names.
func Sidecar() Container {
	c := Container{Namespace: os.Getenv("STAPSDT_POD_NAMESPACE"), Pod: os.Getenv("STAPSDT_POD_NAME"), UID: os.Getenv("STAPSDT_POD_UID")}
	if c.InPod() {
		c.Name = os.Getenv("STAPSDT_CONTAINER_NAME")
	}
	return c
}

// Every runtime names the groups of a container by its ID: docker-ID.scope,
// cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope, or just ID.
var id = lazyregexp.New(`(?:^|[-/.:])([0-9a-f]{64})(?:$|[-/.:])`)

// podUID finds a pod's UID in the name of its group: podUID, or kubepods-burstable-podUID.slice, in
// which systemd demands underscores. The UID of a static pod is a hash.
var podUID = lazyregexp.New(`(?:^|-)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:$|[.:])`)

// place is a container's group in a path.
type place struct{ id, uid string } // uid is the UID in the outermost pod's group before it, or ""

// places returns the containers of a path, from the outermost to the innermost.
func places(path string) iter.Seq[place] {
	return func(yield func(place) bool) {
		uid := ""
		for part := range strings.SplitSeq(path, "/") {
			if match := podUID().FindStringSubmatch(part); match != nil && uid == "" {
				uid = strings.ReplaceAll(match[1], "_", "-")
			}
			match := id().FindStringSubmatch(part)
			if match != nil && !yield(place{match[1], uid}) {
				return
			}
		}
	}
}

// innermost returns the ID of the innermost container in the path of a group, or "".
func innermost(path string) (found string) {
	for p := range places(path) {
		found = p.id
	}
	return found
}

// inPod reports whether a path leads into a pod, judged by the names that the kubelet gives to
// groups.
func inPod(path string) bool {
	for p := range places(path) {
		if p.uid != "" {
			return !forgeable(path)
		}
	}
	return false
}

// userSlice contains the services that systemd runs for users. Users can create any groups in it.
const userSlice = "/user.slice/"

// forgeable reports whether a user other than root may have named a group outside of containers.
func forgeable(path string) bool { return strings.HasPrefix(path, userSlice) }

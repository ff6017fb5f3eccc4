// Package kube implements kubectl stapsdt, which runs the command for a pod with the rights that
// the user has in the cluster.
//
// It runs kubectl. For a program that listens, this package adds an ephemeral container to the pod,
// which waits for requests under the restricted profile. Each request is a kubectl exec. Requests
// for other programs go to the node agent, if there is one that the user may exec into. Package
// inpod serves the requests in the pod.
//
// A request for several pods runs on the user's machine. Each pod records the events into its
// memory, and sends the recording while it grows: see package mirror.
package kube

// Package kube is kubectl stapsdt: it asks the command's questions about a pod, with the rights that the user has in the cluster.
//
// It runs kubectl. A program that listens is asked from an ephemeral container that this package adds to the pod, which waits
// for questions under the restricted profile; each question is a kubectl exec. Any other program is asked from the node
// agent, if there is one that the user may exec into. Package debugger is what answers in the pod.
package kube

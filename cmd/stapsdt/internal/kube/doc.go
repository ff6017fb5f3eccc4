// Package kube implements kubectl stapsdt, which runs the command for a pod with the rights that the user has in the cluster.
//
// It runs kubectl. For a program that listens, this package adds an ephemeral container to the pod, which waits for
// questions under the restricted profile. Each question is a kubectl exec. Questions about other programs go to the node
// agent, if there is one that the user may exec into. Package inpod answers in the pod.
package kube

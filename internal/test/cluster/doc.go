// Package cluster runs kubectl stapsdt for pods where there is no Kubernetes. It consists of tests, and of the program that pods run
// here and in package kubernetes.
//
// The plugin and the commands that it runs in a pod are the real ones. The rest are stand-ins:
//
//   - kubectl is this test binary, which passes each call to the test. The test answers get, debug, exec and auth can-i as kubectl
//     does, and refuses flags that kubectl does not have.
//   - A container is a process in PID, mount, UTS and IPC namespaces of its own, with a read-only root, as the user 65532 and
//     without any capability. An ephemeral container shares the PID namespace of its target.
//   - The control groups of memory are nested as the kubelet nests them: one for the pod, and below it one for each container. A
//     container sees its own as the root, and not the limit of its pod.
//
// Package kubernetes tests on a real cluster what the stand-ins lack: the API server and its rights, admission, the kubelet's
// decisions, the runtime's exec, seccomp, images, and several nodes.
package cluster

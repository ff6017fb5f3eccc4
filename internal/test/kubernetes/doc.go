// Package kubernetes tests the manifests of packaging/kubernetes and the commands of the guides on
// a cluster. scripts/kubernetes.sh starts the cluster, and runs the tests in its namespaces.
// Without a cluster there are no tests.
//
// The node agent and the exporter beside a service are those of packaging/kubernetes, with an image
// and rules in a kustomization, as a user would have one. All other pods run the program of
// internal/test/cluster/worker.
//
// All tests use one cluster. Each passes alone, and they pass in any order. A test whose pods fire
// without a tracer is parallel: it runs after those that compare what the agents have counted. The
// cluster has one node until a test needs the second.
package kubernetes

//go:build linux

package rule

// ProcessLabels are the expressions of the labels that say who fired.
var ProcessLabels = map[string]string{"executable": "executable", "container": "cgroup"}

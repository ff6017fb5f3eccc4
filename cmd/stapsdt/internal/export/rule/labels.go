//go:build linux

package rule

// ProcessLabels maps the labels that identify the firing process to their expressions.
var ProcessLabels = map[string]string{"executable": "executable", "container": "cgroup"}

//go:build linux

package bpf

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var childField = regexp.MustCompile(`\bpid_t child_pid;\s*offset:(\d+);\s*size:4;`)

// childOffset returns the offset of the child's PID in the record of the tracepoint sched_process_fork. It differs
// between kernels.
func childOffset() (int16, error) {
	var first error
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		format, err := os.ReadFile(dir + "/events/sched/sched_process_fork/format")
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		match := childField.FindSubmatch(format)
		if match == nil {
			return 0, fmt.Errorf("sched_process_fork has no child_pid")
		}
		offset, err := strconv.ParseInt(string(match[1]), 10, 16)
		return int16(offset), err
	}
	return 0, first
}

//go:build linux

package recordings

import (
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Missing returns the processes whose environment requests a recording, but which write none of
// all. Their logs have the reason, unless they never record or have closed the recording.
func Missing(pids []int, all []Recording) (missing []int) {
	for _, pid := range pids {
		path, _, err := recording.ParseVariable(proc.Environment(pid)(recording.Variable))
		isIts := func(r Recording) bool { return r.PID == pid && !r.Kept }
		if err == nil && path != "" && !slices.ContainsFunc(all, isIts) {
			missing = append(missing, pid)
		}
	}
	return missing
}

// MissingText describes a process that Missing returns.
func MissingText(pid int) string {
	return fmt.Sprintf("the environment of process %d has %s, but it does not record: its log has the reason, unless it never calls probeenv.Load",
		pid, recording.Variable)
}

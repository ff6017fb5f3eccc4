//go:build linux

package tracetest

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// ProcessorTime returns the processor time that the threads of a process have used, but for threads that have ended.
func ProcessorTime(t testing.TB, pid int) (sum time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, path := range threads {
		var ran time.Duration
		if _, err := fmt.Sscan(read(t, path), &ran); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		sum += ran
	}
	return sum
}

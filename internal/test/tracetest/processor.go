//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ProcessorTime returns the processor time that the threads of a process have used, but for threads that have ended.
func ProcessorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	sum, err := ReadProcessorTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// ReadProcessorTime is ProcessorTime for what is no test.
func ReadProcessorTime(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d has no threads: %v", pid, err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		var ran time.Duration
		if err == nil {
			_, err = fmt.Sscan(string(text), &ran)
		}
		if err != nil {
			return 0, err
		}
		sum += ran
	}
	return sum, nil
}

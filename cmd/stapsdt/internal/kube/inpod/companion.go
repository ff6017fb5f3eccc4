//go:build linux

package inpod

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
)

// A command with a terminal does not notice that its connection has died: containerd 1.6 keeps the terminal open. A command without
// a terminal does, so kubectl stapsdt runs one as a companion, which ends when its standard input ends. Both have the same token as
// last argument.

const (
	// companionPatience is the time that the companion may take to appear.
	companionPatience = 15 * time.Second
	// companionInterval is the interval between two checks for it.
	companionInterval = 500 * time.Millisecond
)

// AwaitAlone returns when the companion of a command has ended, or does not appear.
func AwaitAlone(token string) {
	pid := 0
	for began := time.Now(); pid == 0 && time.Since(began) < companionPatience; time.Sleep(companionInterval) {
		pid = companion(token)
	}
	for isCompanion(pid, token) {
		time.Sleep(companionInterval)
	}
}

// companion returns the PID of another process that has the token, or 0.
func companion(token string) int {
	pids, _ := proc.Processes()
	for _, pid := range pids {
		if pid != os.Getpid() && isCompanion(pid, token) {
			return pid
		}
	}
	return 0
}

func isCompanion(pid int, token string) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasSuffix(line, []byte("\x00"+Companion+"\x00"+token+"\x00"))
}

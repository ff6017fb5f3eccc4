//go:build linux

package inpod

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
)

// A command with a terminal does not notice that its connection has died: containerd 1.6 keeps the
// terminal open. A command without a terminal does, so kubectl stapsdt runs one as a keepalive,
// which ends when its standard input ends. The last argument of both is the same token.

const (
	// keepalivePatience is the time that the keepalive may take to appear.
	keepalivePatience = 15 * time.Second
	// keepaliveInterval is the interval at which the keepalive's process is looked for.
	keepaliveInterval = 500 * time.Millisecond
)

// AwaitAlone returns when the keepalive of a command has ended or has failed to appear.
func AwaitAlone(token string) {
	pid := 0
	for began := time.Now(); pid == 0 && time.Since(began) < keepalivePatience; {
		if pid = keepalive(token); pid == 0 {
			time.Sleep(keepaliveInterval)
		}
	}
	for isKeepalive(pid, token) {
		time.Sleep(keepaliveInterval)
	}
}

// keepalive returns the PID of another process that has the token, or 0.
func keepalive(token string) int {
	pids, _ := proc.Processes()
	for _, pid := range pids {
		if pid != os.Getpid() && isKeepalive(pid, token) {
			return pid
		}
	}
	return 0
}

func isKeepalive(pid int, token string) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasSuffix(line, []byte("\x00"+Keepalive+"\x00"+token+"\x00"))
}

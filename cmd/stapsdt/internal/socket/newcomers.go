//go:build linux

package socket

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// longestUnseen is how long a process may listen in another network namespace, which was there before, until it is found.
const longestUnseen = 10 * time.Second

// Newcomers says when to look for processes again, which is dear where there are many. The zero value is ready.
type Newcomers struct {
	state  string
	looked time.Time
}

// Possible reports whether processes may have begun to listen since it has last reported true: threads were started since, there are
// other sockets in the network namespaces of the processes, or it is long ago.
func (n *Newcomers) Possible(pids ...int) bool {
	state := lastThread()
	for _, pid := range pids {
		sockets := slices.Sorted(maps.Keys(listening(pid)))
		if len(sockets) == 0 {
			return true // no socket is listed in gVisor
		}
		state += "\n" + strings.Join(sockets, " ")
	}
	if state == n.state && time.Since(n.looked) < longestUnseen {
		return false
	}
	n.state, n.looked = state, time.Now()
	return true
}

// lastThread returns what the kernel has numbered last: a thread of any process in this PID namespace, in the last field.
func lastThread() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return string(b[bytes.LastIndexByte(b, ' ')+1:])
}

//go:build linux && (amd64 || arm64)

package cluster

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// limits are those with which pods run.
var limits = []struct{ megabytes, taken int }{{128, 90}, {48, 0}, {32, 0}}

// TestMemory: a request takes only memory that the pod can spare, wherever the limit is. The program lives, and each event that it
// fires is counted or known to be lost.
func TestMemory(t *testing.T) {
	for name, program := range programs {
		for _, limit := range limits {
			for place, limitsPod := range map[string]bool{"container": false, "pod": true} {
				t.Run(fmt.Sprintf("%s/%dMi of the %s", name, limit.megabytes, place), func(t *testing.T) {
					t.Parallel()
					s := newServer(t)
					p := s.newPod(podOptions{program: program(t), limit: limit.megabytes, limitsPod: limitsPod})
					p.running("app").tell(fmt.Sprint("take ", limit.taken), "done")
					plugin := s.plugin("count", "web", program(t).probe, "-d", "1m", "-o", "json")
					p.checkCount(plugin, func() { plugin.Signal(os.Interrupt) })
				})
			}
		}
	}
}

// TestMemoryOfProgram: a program bounds by itself what it makes for a command that does not know the limit, such as one that kubectl
// debug runs without the plugin.
func TestMemoryOfProgram(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			p := s.newPod(podOptions{program: program(t), limit: 32, limitsPod: true})
			e := &ephemeralContainer{TargetContainerName: "app"}
			e.Name = "debugger"
			e.Command = []string{"/stapsdt", "count", "-p", "1", program(t).probe, "-d", "1m", "-o", "json"}
			require.NoError(t, p.add(e))
			command := p.running(e.Name)
			p.checkCount(command.Process, func() { require.NoError(t, unix.Kill(command.pid, unix.SIGINT)) })
		})
	}
}

// checkCount lets the program fire while a command counts, which interrupt ends. Each event is counted or lost, nothing was killed,
// and 8 MB of the pod's limit were always left.
func (p *localPod) checkCount(command *tracetest.Process, interrupt func()) {
	p.t.Helper()
	const fired = 200_000
	p.awaitWatch(command)
	p.running("app").tell(fmt.Sprint("fire ", fired), "done")
	interrupt()
	require.NoError(p.t, command.Wait(testenv.Patience))
	got := sum(p.t, command.Lines())
	limit, peak := p.group.Limit(p.t), p.group.Peak(p.t)
	p.t.Logf("%d of %d events were counted, with %d of %d bytes", got.Count, fired, peak, limit)
	require.EqualValues(p.t, fired, got.Count+got.Lost)
	require.NotZero(p.t, got.Count)
	require.Less(p.t, peak, limit-8<<20)
	require.Zero(p.t, p.killed())
	require.NotNil(p.t, p.running("app"), "the program was killed")
}

//go:build linux && (amd64 || arm64)

package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
)

// plugin starts kubectl stapsdt.
func (s *server) plugin(args ...string) *tracetest.Process {
	s.t.Helper()
	cmd := exec.Command(s.directory+"/kubectl-stapsdt", args...)
	cmd.Env = append(os.Environ(), "PATH="+s.directory+":"+os.Getenv("PATH"), "STAPSDT_IMAGE=stapsdt", serverVariable+"="+s.socket())
	return tracetest.Command(s.t, cmd)
}

// awaitWatch waits until a command watches the probe of the program.
func (p *localPod) awaitWatch(command *tracetest.Process) {
	p.t.Helper()
	app := p.running("app")
	require.NotNil(p.t, app, "the program was killed")
	for app.tell("enabled", "enabled") != "1" {
		require.False(p.t, command.Ended(), "it does not watch the program")
		time.Sleep(5 * time.Millisecond)
	}
}

// counted is what count -o json prints.
type counted struct{ Count, Lost uint64 }

// sum returns what the lines of count -o json say together.
func sum(t testing.TB, lines []string) (all counted) {
	t.Helper()
	for _, line := range lines {
		if line == started { // by a container, before
			continue
		}
		var one counted
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		all.Count += one.Count
		all.Lost += one.Lost
	}
	return all
}

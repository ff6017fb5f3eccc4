//go:build linux && (amd64 || arm64)

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// recorded returns the number of events in a recording.
func recorded(t testing.TB, file string) uint64 {
	t.Helper()
	cmd := exec.Command(tracetest.Stapsdt(t), "count", "--from", file, "worker:asked", "-o", "json")
	out := tracetest.Must(cmd.Output())(t)
	return sum(t, strings.Split(strings.TrimSpace(string(out)), "\n")).Count
}

// run runs kubectl stapsdt to its end, and returns its exit status.
func (s *server) run(args ...string) (status int, p *tracetest.Process) {
	s.t.Helper()
	p = s.plugin(args...)
	if err := p.Wait(testenv.Patience); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(s.t, err, &exit)
		status = exit.ExitCode()
	}
	return status, p
}

// TestVerbs: list shows the probes of a pod, and record fetches what it has recorded, by one ephemeral container.
func TestVerbs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.newPod(podOptions{program: goProgram(t), limit: 64, limitsPod: true})
	status, list := s.run("list", "web")
	require.Zero(t, status)
	list.WaitLine("worker:asked(number int)", 0)

	file := filepath.Join(t.TempDir(), "events.rec")
	record := s.plugin("record", "web", "worker:asked", "-O", file)
	p.awaitWatch(record)
	p.running("app").tell("fire 500", "done")
	record.Signal(os.Interrupt)
	require.NoError(t, record.Wait(testenv.Patience))
	require.EqualValues(t, 500, recorded(t, file))
	require.Len(t, s.called("debug"), 1)
	require.Zero(t, p.killed())
}

// TestKept: what a program has recorded until it was killed is listed and fetched, exactly, while its container does not run, and when
// it runs again.
func TestKept(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := s.newPod(podOptions{program: goProgram(t), limit: 64, environment: []string{"STAPSDT_RECORD=" + mounted + "/rec/app.rec,1M"}})
	app := p.running("app")
	app.tell("fire 802", "done")
	require.NoError(t, unix.Kill(app.pid, unix.SIGKILL))
	require.Error(t, app.Wait(testenv.Patience))
	want := tracetest.Must(os.ReadFile(filepath.Join(p.volume(), "rec/app.rec")))(t)
	for _, life := range []string{"none", "second"} {
		if life == "second" {
			p.startApp()
		}
		status, list := s.run("list", "web")
		require.Zero(t, status)
		list.WaitMatch(regexp.MustCompile(`recorded in /run/stapsdt/rec/app\.rec\S* by an earlier process`), 0)
		file := filepath.Join(t.TempDir(), "kept.rec")
		status, _ = s.run("record", "web", "--kept", "-O", file)
		require.Zero(t, status)
		require.Equal(t, want, tracetest.Must(os.ReadFile(file))(t))
		require.EqualValues(t, 802, recorded(t, file))
	}
	require.Len(t, s.called("debug"), 2)
}

// TestRefused: a container that would be of no use is not added.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		options podOptions
		refused string
		says    string
		status  int
		asked   int // how often a container was asked for
	}{
		"16Mi of the pod":       {podOptions{limit: 16, limitsPod: true}, "", "the memory limit is too low: work/web may use 16777216 bytes, but a request in the pod needs 20971520", 1, 0},
		"16Mi of the container": {podOptions{limit: 16}, "", "the memory limit is too low: work/web may use 16777216 bytes, but a request in the pod needs 20971520", 1, 0},
		"no right to exec":      {podOptions{}, "exec", "you may not run commands in pods of the namespace work: this takes the right to create pods/exec", 4, 0},
		"no right to debug":     {podOptions{}, "debug", "you may not add a container to pods of the namespace work: this takes the right to patch pods/ephemeralcontainers", 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.refused = test.refused
			test.options.program = goProgram(t)
			p := s.newPod(test.options)
			status, plugin := s.run("count", "web", "worker:asked", "-d", "1s")
			require.Equal(t, test.status, status)
			plugin.WaitSaid(regexp.MustCompile(regexp.QuoteMeta(test.says)), 0)
			require.Len(t, s.called("debug"), test.asked)
			require.Empty(t, p.tell().Spec.EphemeralContainers)
			require.Equal(t, "0", p.running("app").tell("enabled", "enabled"))
		})
	}
}

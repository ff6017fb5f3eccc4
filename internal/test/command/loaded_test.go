//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// eventsOfLoad is the number of events that a program fires at once after a load.
const eventsOfLoad = 1000

// loading is a program in C that loads a provider, fires, and prints a line.
const loading = `#include <libstapsdt.h>
#include <stdio.h>
int main(void) {
	SDTProvider_t *provider = providerInit("loading");
	SDTProbe_t *probe = providerAddProbe(provider, "now", 1, int32);
	if (providerLoad(provider) != 0) return 1;
	for (int i = 0; i < 1000; i++) probeFire(probe, i);
	puts("fired");
	return 0;
}`

// loadingPrograms returns programs that fire at once after a load: in Go with cgo and without, and in C.
func loadingPrograms(t *testing.T) map[string]string {
	t.Helper()
	testenv.NeedsTool(t, "make", "make")
	library, err := filepath.Abs("../../../cstapsdt")
	require.NoError(t, err)
	dir := tracetest.BuildShell(t, fmt.Sprintf("make -s -C %q OUT=\"$PWD/out\" all\ncc -O2 -I%[1]q -x c -o app - -x none out/libstapsdt.a -lelf -ldl -pthread <<'END'\n%s\nEND\n", library, loading))
	return map[string]string{
		"C":          dir + "/app",
		"Go":         tracetest.Build(t, "loading", "CGO_ENABLED=0"),
		"Go and cgo": tracetest.Build(t, "loading", "CGO_ENABLED=1"),
	}
}

// lateLoad is what the command says if a program has not waited until its probes were attached to.
var lateLoad = regexp.MustCompile(`(?m)^stapsdt: process \d+ went on before it was attached to: `)

// TestLoaded: of a command that stapsdt starts, each event of a probe that it makes at run time is seen,
// from the first on, also in the children of a shell, and in a program that has another user, or the command says that some
// may be missing.
func TestLoaded(t *testing.T) {
	testenv.NeedsRoot(t)
	runs := 100
	if testing.Short() {
		runs = 10
	}
	for name, program := range loadingPrograms(t) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.Chmod(filepath.Dir(program), 0o755))
			for _, c := range []struct {
				events  int
				command []string
			}{
				{eventsOfLoad, []string{program}},
				{2 * eventsOfLoad, []string{"sh", "-c", program + "; exec " + program}},
				{eventsOfLoad, []string{"setpriv", "--reuid=65534", "--clear-groups", program}},
			} {
				whole := 0
				for range runs {
					r := runCommand(t, append([]string{"count", "-o", "json", "loading:*", "--"}, c.command...)...)
					// A program waits for a second only, which can be too short on a busy machine.
					if lateLoad.MatchString(r.stderr) {
						continue
					}
					require.Zero(t, r.status, r.stderr)
					require.Contains(t, r.stdout, fmt.Sprintf(`"count":%d}`, c.events), r.stderr)
					whole++
				}
				require.NotZero(t, whole, "no program has waited until it was attached to")
			}
		})
	}
}

// TestLoadedLate: if a program that has loaded probes has not waited long enough for the tracer, which was stopped, this is
// reported.
func TestLoadedLate(t *testing.T) {
	testenv.NeedsRoot(t)
	for name, program := range loadingPrograms(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tracetest.Command(t, exec.Command(stapsdt(t), "count", "loading:*", "--", "sh", "-c", "echo begun; read line; "+program+"; read line"))
			c.Expect("begun", testenv.Patience)
			c.Signal(unix.SIGSTOP)
			c.Say("load")
			c.WaitSaid(regexp.MustCompile("^fired$"), testenv.Patience)
			c.Signal(unix.SIGCONT)
			c.WaitSaid(lateLoad, testenv.Patience)
			c.Hangup()
			_ = c.Wait(testenv.Patience)
		})
	}
}

// TestLoadedAlone: a program goes on if its tracer is killed while it waits, if the tracer never
// answers, and after the verb has ended.
func TestLoadedAlone(t *testing.T) {
	testenv.NeedsRoot(t)
	for name, program := range loadingPrograms(t) {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "loaded")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/socket"})
			require.NoError(t, err)
			defer listener.Close()
			start := func() *exec.Cmd {
				cmd := exec.Command(program)
				cmd.Env = append(os.Environ(), "STAPSDT_TRACER="+dir+"/socket")
				return cmd
			}
			out, err := start().Output() // nobody accepts the connection
			require.NoError(t, err)
			assert.Equal(t, "fired\n", string(out))

			tracer := exec.Command("sleep", "infinity") // which has the socket when it is killed
			file, err := listener.File()
			require.NoError(t, err)
			tracer.ExtraFiles = []*os.File{file}
			require.NoError(t, tracer.Start())
			p := tracetest.Command(t, start())
			file.Close()
			listener.SetUnlinkOnClose(false)
			listener.Close()
			require.NoError(t, tracer.Process.Kill())
			_ = tracer.Wait()
			require.NoError(t, p.Wait(testenv.Patience))
			assert.Equal(t, []string{"fired"}, p.Lines())

			c := tracetest.Command(t, exec.Command(stapsdt(t), "count", "-d", "1ms", "loading:*", "--", "sh", "-c", "read line; "+program))
			c.WaitSaid(regexp.MustCompile("waiting for sh"), testenv.Patience)
			c.Hangup()
			var ended *exec.ExitError
			require.ErrorAs(t, c.Wait(testenv.Patience), &ended)
			assert.Equal(t, 3, ended.ExitCode(), "nothing was attached to in a millisecond")
			assert.Contains(t, c.Lines(), "fired")
		})
	}
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// event is a line of trace -o json.
type event struct {
	Time            time.Time
	Provider, Probe string
	PID, TID        int
	Comm            string
	Args            map[string]any
	Cut             []string
}

// tracer is a command that runs until it is told to stop.
type tracer struct {
	*tracetest.Process
	t testing.TB
}

// startTrace starts the command, and returns when it is attached to all that it is told to trace
// in the subject. It attaches to one probe after the other.
func startTrace(t testing.TB, subject *tracetest.Process, args ...string) *tracer {
	t.Helper()
	testenv.NeedsRoot(t)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), args...)), t}
	require.Eventually(t, func() bool { return areTraced(t, subject, args) }, testenv.Patience, 20*time.Millisecond, "it does not attach")
	return tr
}

// specs matches an argument of the command that is the name of probes, and takes the file
// from it.
var specs = regexp.MustCompile(`^(?:/[^ ]*:)?([\w*?\[\]]+:[\w*?\[\]]+)$`)

// areTraced reports whether every probe of a subject that the command's arguments name is
// traced.
func areTraced(t testing.TB, subject *tracetest.Process, args []string) bool {
	out, err := exec.Command(stapsdt(t), "list", "-p", pid(subject)).Output()
	if err != nil {
		return false
	}
	found := false
	for line := range strings.Lines(string(out)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), "(")
		for _, arg := range args {
			spec := specs.FindStringSubmatch(arg)
			if !ok || spec == nil {
				continue
			}
			if matches, err := path.Match(spec[1], name); err != nil || !matches {
				continue
			}
			if !strings.HasSuffix(strings.TrimSpace(line), "traced now") { // and not at some of its sites
				return false
			}
			found = true
		}
	}
	return found
}

// isTraced reports whether a tracer is attached to any site of a subject.
func isTraced(t testing.TB, subject *tracetest.Process) bool {
	out, err := exec.Command(stapsdt(t), "list", "-p", pid(subject)).Output()
	return err == nil && strings.Contains(string(out), "traced now")
}

// waitForEnd waits until the command ends by itself, with a status of 0.
func (tr *tracer) waitForEnd() []event {
	tr.t.Helper()
	require.NoError(tr.t, tr.Wait(testenv.Patience))
	return lines[event](tr.t, strings.Join(tr.Lines(), "\n"))
}

// stop interrupts the command, and returns what it traced.
func (tr *tracer) stop() []event {
	tr.t.Helper()
	tr.Signal(os.Interrupt)
	return tr.waitForEnd()
}

func args(events []event, name string) (all []any) {
	for _, e := range events {
		all = append(all, e.Args[name])
	}
	return all
}

// of returns the events of a process.
func of(p *tracetest.Process, events []event) []event {
	return slices.DeleteFunc(events, func(e event) bool { return e.PID != p.PID() })
}

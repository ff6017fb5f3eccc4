//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSocketTimeNamespaces: the start time in the name of a socket is what the program sees. The times of
// the kernel's events are right whatever the program's clocks are, and a socket is not watched whose
// events have other times.
func TestSocketTimeNamespaces(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsNamespaces(t, "time", unix.CLONE_NEWTIME)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	for name, offsets := range map[string]string{
		"start": "--boottime 200000", "clock": "--boottime 200000 --monotonic 100000",
	} {
		t.Run(name, func(t *testing.T) {
			words := append(strings.Fields("--time --fork --kill-child "+offsets), tracetest.Build(t, "subject"))
			p := startIn(t, t.TempDir(), exec.Command(unshare, words...))
			tell(p, "listen")
			for _, via := range []string{"kernel", "socket"} {
				begun := time.Now()
				args := []string{"trace", "-v", "-o", "json", "--via", via, "-p", childOf(t, p), "-n", "1", "subject:request__done"}
				if via == "socket" && name == "clock" {
					runCommand(t, args...).ends(t, 1, "another CLOCK_MONOTONIC")
					continue
				}
				c := tracetest.Command(t, exec.Command(stapsdt(t), args...))
				c.WaitSaid(regexp.MustCompile("Ctrl-C ends$"), testenv.Patience)
				tell(p, "fire 1")
				require.NoError(t, c.Wait(testenv.Patience))
				var event struct{ Time time.Time }
				objects.Decode(t, c.Lines()[0], &event)
				require.WithinRange(t, event.Time, begun, time.Now())
				tell(p, "idle")
			}
		})
	}
}

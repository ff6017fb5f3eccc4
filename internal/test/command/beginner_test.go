//go:build linux && (amd64 || arm64)

package command_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestNearest: every verb names the probe or the argument that resembles one that does not exist, whatever it asks.
func TestNearest(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p := startGoSubject(t)
	file := filepath.Join(t.TempDir(), "recording")
	tell(p, "record "+file)
	tell(p, "fire 3")
	tell(p, "listen")
	id := pid(p)
	const probe, argument = "; the nearest name is subject:request__done", "; the nearest name is status"
	for _, c := range []struct {
		want   string
		status int
		args   []string
	}{
		{probe, 3, []string{"trace", "-p", id, "subject:request_done"}},
		{probe, 3, []string{"count", "-p", id, "subject:reqest__done"}},
		{probe, 3, []string{"hist", "-p", id, "subjct:request__done", "elapsed"}},
		{probe, 3, []string{"stack", "-p", id, "subject:request_done"}},
		{probe, 3, []string{"record", "-p", id, "subject:request_done", "-O", file + ".other"}},
		{probe, 3, []string{"script", "-p", id, "subject:request_done", "--for", "bpftrace"}},
		{probe, 3, []string{"count", "--from", file, "subject:request_done"}},
		{probe, 3, []string{"count", "-p", id, "subject:request_done", "--via", "socket"}},
		{probe, 3, []string{"trace", "--from", file, "subject:request_done"}},
		{argument, 2, []string{"trace", "-p", id, "subject:request__done", "-w", "statuss > 3"}},
		{argument, 2, []string{"count", "-p", id, "subject:request__done", "--by", "statuss"}},
		{argument, 2, []string{"count", "--from", file, "subject:request__done", "--by", "statuss"}},
		{"a histogram takes integers, and this is a string", 2, []string{"hist", "-p", id, "subject:request__done", "path", "--via", "kernel"}},
		{"there is no file 99999999; -p 99999999 lists", 2, []string{"list", "99999999"}},
	} {
		runCommand(t, c.args...).ends(t, c.status, c.want)
	}
}

// TestStopped: the command says of a process that is stopped that it fires nothing.
func TestStopped(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	p, _ := startCSubject(t)
	p.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
	for _, verb := range []string{"trace", "count"} {
		r := runCommand(t, verb, "-p", pid(p), "csubject:other", "-d", "10ms")
		require.Zero(t, r.status)
		require.Equal(t, 1, strings.Count(r.stderr, "process "+pid(p)+" is stopped"), verb)
	}
}

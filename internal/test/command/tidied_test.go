//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTidied: systemd-tmpfiles leaves the socket, the recording and the image of a program that runs.
func TestTidied(t *testing.T) {
	t.Parallel()
	tracetest.EachService(t, func(t *testing.T, s *tracetest.Service) {
		p := startProcess(t, s.Command(startSubjectIn(t, s.Dir+"/stapsdt")))
		file := s.Dir + "/stapsdt/flight.rec"
		tell(p, "listen")
		tell(p, "record "+file)
		s.Clean(t)
		left := tracetest.Must(filepath.Glob(s.Outside + "/stapsdt/*"))(t)
		require.Len(t, left, 3)
		r := runCommand(t, "list", "-p", pid(p))
		require.Contains(t, r.stdout, "  can be watched without root: process "+pid(p)+"\n")
		require.Contains(t, r.stdout, "  recorded in "+file+" by process "+pid(p)+"\n")
		tell(p, "storm 3 1")
		events, _ := recorded(t, s.Outside+"/stapsdt/flight.rec", "subject:tick")
		require.Len(t, events, 3)
	})
}

// TestDeleted: list and doctor say that the files of a program that runs were deleted, and where its recording can still
// be read, also to its user.
func TestDeleted(t *testing.T) {
	t.Parallel()
	p := startListening(t)
	file := filepath.Join(userDirectory(t), "flight.rec")
	tell(p, "record "+file)
	image := lines[listed](t, runCommand(t, "list", "-o", "json", "-p", pid(p)).stdout)[0].File
	sockets := tracetest.Must(filepath.Glob(filepath.Dir(image) + "/*.sock"))(t)
	require.Len(t, sockets, 1)
	for _, name := range []string{file, image, sockets[0]} {
		require.NoError(t, os.Remove(name))
	}
	tell(p, "storm 3 1")
	for _, run := range []func(t *testing.T, args ...string) result{
		runByUser, func(t *testing.T, args ...string) result { return runCommand(t, args...) },
	} {
		r := run(t, "list", "-p", pid(p))
		require.Contains(t, r.stderr, "process "+pid(p)+": the file of its socket was deleted: "+sockets[0])
		recording := regexp.MustCompile(`recorded by process \d+, but the file of its recording was deleted or unmounted: (\S+); until the process ends, --from (\S+) reads it`).FindStringSubmatch(r.stdout)
		require.NotNil(t, recording)
		require.Equal(t, file, recording[1])
		r = run(t, "count", "--from", recording[2], "subject:tick")
		require.Contains(t, r.stdout, "3  subject:tick", r.stderr)
		r = run(t, "doctor", "-p", pid(p))
		require.Contains(t, r.stdout, "its recording was deleted or unmounted: "+file+".")
		require.Contains(t, r.stdout, "the file of its socket was deleted")
	}
	require.Contains(t, runCommand(t, "list", "-p", pid(p)).stdout, image+" (deleted) (process "+pid(p)+")\n")
	require.Contains(t, runCommand(t, "doctor", "-p", pid(p)).stdout, image+" was deleted or replaced")
	tr := startTrace(t, p, "count", "-p", pid(p), "subject:tick", "-o", "json", "--via", "kernel")
	tell(p, "storm 5 1")
	tr.interrupt()
	require.Contains(t, tr.Lines()[0], `"count":5`)
}

// TestRemounted: what a program has left in a file system serves it while that is full, when nothing there may be executed
// any longer, and, as list says, when it was unmounted. What it makes then goes elsewhere.
func TestRemounted(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	base, second := t.TempDir(), t.TempDir()
	cmd := startSubjectIn(t, "")
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+base, "TMPDIR="+second)
	testenv.Needs(t, "the right to mount", unix.Mount("tmpfs", base, "tmpfs", 0, "mode=0700,size=20m"))
	mounted := true
	unmount := func() {
		if mounted {
			require.NoError(t, unix.Unmount(base, unix.MNT_DETACH))
			mounted = false
		}
	}
	t.Cleanup(unmount)
	p := startProcess(t, cmd)
	tell(p, "listen")
	file := base + "/flight.rec"
	tell(p, "record "+file)
	require.ErrorIs(t, os.WriteFile(base+"/filling", make([]byte, 20<<20), 0o600), unix.ENOSPC)
	fires := 0
	requireServed := func() {
		t.Helper()
		args := []string{"count", "-p", pid(p), "subject:tick", "-o", "json", "-v", "--via"}
		bySocket := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), append(args, "socket")...)), t}
		bySocket.waitForWatches(p, 1)
		byKernel := startTrace(t, p, append(args, "kernel")...)
		tell(p, "storm 5 1")
		for _, tr := range []*tracer{bySocket, byKernel} {
			tr.interrupt()
			require.Contains(t, tr.Dump(), `"count":5`)
		}
		fires += 5
		events, _ := recorded(t, file, "subject:tick")
		require.Len(t, events, fires)
	}
	requireServed()
	require.NoError(t, unix.Mount("", base, "", unix.MS_REMOUNT|unix.MS_NOEXEC, ""))
	requireServed()
	tell(p, "unload")
	tell(p, "load")
	require.Contains(t, lines[listed](t, runCommand(t, "list", "-o", "json", "-p", pid(p)).stdout)[0].File, second)
	requireServed()
	require.ErrorIs(t, unix.Mount("", base, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""), unix.EBUSY)
	unmount()
	r := runCommand(t, "list", "-p", pid(p))
	require.Contains(t, r.stdout, "the file of its recording was deleted or unmounted: ")
	require.Contains(t, r.stderr, "the file of its socket was deleted: "+base)
	tell(p, "storm 1 1")
}

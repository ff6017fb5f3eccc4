//go:build linux

package debian

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

const (
	syncing  = "E: Failed to fetch http://x/Packages.xz  File has unexpected size (1 != 2). Mirror sync in progress? [IP: 203.0.113.80 80]"
	mismatch = "E: Failed to fetch http://x/a.deb  Hash Sum mismatch"
	refused  = "W: Failed to fetch http://x/InRelease  Could not connect to x:80. - connect (111: Connection refused)"
	gone     = "E: Failed to fetch http://x/a.deb  404  Not Found"
	unknown  = "E: Unable to locate package a"
)

// archive is a mirror whose apt-get fails as the lines of a file say, one for each call, and works
// when there are none.
type archive struct {
	t   *testing.T
	dir string
}

func newArchive(t *testing.T) *archive {
	testenv.Long(t, "it needs what only the long tests install")
	_, err := os.Stat("/usr/share/keyrings/debian-archive-keyring.gpg")
	testenv.Needs(t, "package debian-archive-keyring", err)
	a := &archive{t, t.TempDir()}
	a.program("apt-get", `cd "`+a.dir+`"
echo "$*" >>calls
line=$(head -n 1 failures)
sed -i 1d failures
[ -z "$line" ] || { printf '%s\n' "$line" | tr '|' '\n' >&2; exit 100; }`)
	a.program("sleep", `echo "sleep $1" >>"`+a.dir+`/calls"`)
	return a
}

func (a *archive) program(name, body string) {
	require.NoError(a.t, os.WriteFile(filepath.Join(a.dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

// download downloads a package, and returns the status and what was called for it.
func (a *archive) download(failures ...string) (status int, calls []string) {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(a.dir+"/failures", []byte(strings.Join(failures, "\n")), 0o600))
	require.NoError(a.t, os.RemoveAll(a.dir+"/calls"))
	cmd := exec.Command("bash", "-c", `. ../../../scripts/lib/debian.sh && foreign_apt "$0"/suite-arch suite arch apt-get download a`, a.dir)
	cmd.Env = append(os.Environ(), "PATH="+a.dir+":"+os.Getenv("PATH"), "DEBIAN_ARCHIVE=http://x", "STAPSDT_FAULTS="+a.dir+"/faults", "debian_patience=15")
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.IsType(a.t, &exec.ExitError{}, err)
	}
	text, err := os.ReadFile(a.dir + "/calls")
	require.NoError(a.t, err, "%s", out)
	for call := range strings.Lines(string(text)) {
		words := strings.Fields(call)
		if words[0] != "sleep" {
			words = words[len(words)-1:]
		}
		calls = append(calls, strings.Join(words, " "))
	}
	return cmd.ProcessState.ExitCode(), calls
}

func (a *archive) faults() string {
	text, err := os.ReadFile(a.dir + "/faults")
	if !os.IsNotExist(err) {
		require.NoError(a.t, err)
	}
	return string(text)
}

// TestMirrorPasses: a fault that passes costs a moment.
func TestMirrorPasses(t *testing.T) {
	a := newArchive(t)
	status, calls := a.download(syncing, refused, "", mismatch)
	require.Zero(t, status)
	require.Equal(t, []string{"update", "sleep 5", "update", "sleep 10", "update", "a", "sleep 5", "a"}, calls)
	require.Empty(t, a.faults())
}

// TestMirrorContradicts: a fault that remains has a status of its own and is reported. It is not
// waited for again.
func TestMirrorContradicts(t *testing.T) {
	a := newArchive(t)
	status, calls := a.download(syncing, syncing, syncing)
	require.Equal(t, faultStatus, status)
	require.Equal(t, []string{"update", "sleep 5", "update", "sleep 10", "update"}, calls)
	require.Equal(t, "suite-arch: "+syncing+"\n", a.faults())
	status, calls = a.download(syncing)
	require.Equal(t, faultStatus, status)
	require.Equal(t, []string{"update"}, calls)
	status, _ = a.download()
	require.Zero(t, status)
}

// TestMirrorFails: any other failure, also beside that fault, is none of the mirror's.
func TestMirrorFails(t *testing.T) {
	for _, failure := range []string{refused, syncing + "|" + refused, unknown} {
		a := newArchive(t)
		status, _ := a.download(failure, failure, failure, failure)
		require.Equal(t, 100, status, failure)
		require.Empty(t, a.faults())
	}
}

// TestMirrorMoves: lists that are old are renewed, or used if they cannot be.
func TestMirrorMoves(t *testing.T) {
	a := newArchive(t)
	status, _ := a.download()
	require.Zero(t, status)
	require.NoError(t, exec.Command("touch", "-d", "1 hour ago", a.dir+"/suite-arch/updated").Run())
	status, calls := a.download(gone)
	require.Zero(t, status)
	require.Equal(t, []string{"a", "update", "a"}, calls)
	require.NoError(t, exec.Command("touch", "-d", "2 days ago", a.dir+"/suite-arch/updated").Run())
	status, calls = a.download(syncing, syncing, syncing)
	require.Zero(t, status)
	require.Equal(t, []string{"update", "sleep 5", "update", "sleep 10", "update", "a"}, calls)
	require.NotEmpty(t, a.faults())
}

//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPathInPIDNamespace: the program is process 1 in its own PID namespace, and has
// another number in the /proc that it and its tracer see.
func TestPathInPIDNamespace(t *testing.T) {
	testenv.NeedsRoot(t)
	child := tracetest.Child(t, "place", tracetest.WithArgs("memfd"), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	})
	require.Equal(t, "1", child.Expect("process ", testenv.Patience))
	path := child.Expect("loaded ", testenv.Patience)
	require.True(t, strings.HasPrefix(path, fmt.Sprintf("/proc/%d/fd/", child.PID())), path)
	notes := tracetest.Must(sdt.ReadFile(path))(t)
	require.Equal(t, "place", notes[0].Provider)
	child.Hangup()
	require.NoError(t, child.Wait(testenv.Patience))
}

// TestPathWithAnothersProc: where /proc is that of a PID namespace which the program is
// not in, no path leads to its memory, and none is given.
func TestPathWithAnothersProc(t *testing.T) {
	testenv.NeedsRoot(t)
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	nsenter := testenv.NeedsTool(t, "nsenter", "util-linux")
	other := tracetest.Command(t, exec.Command(unshare, "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", "echo ready; cat"))
	other.Expect("ready", testenv.Patience)
	self := tracetest.Must(os.Executable())(t)
	cmd := exec.Command(nsenter, fmt.Sprintf("--mount=/proc/%d/ns/mnt", other.PID()), self, "memfd")
	cmd.Env = append(os.Environ(), "STAPSDT_TEST_CHILD=place")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "loaded \n")
	other.Hangup()
	require.NoError(t, other.Wait(testenv.Patience))
}

// placeChild loads a provider, and says where it is, until its input ends. It may wait for a line of input before.
//
//	memfd|file [wait]
func placeChild(args []string) {
	var opts []stapsdt.Option
	if args[0] == "memfd" {
		opts = append(opts, stapsdt.WithMemfd())
	}
	if len(args) > 1 {
		waitLine()
	}
	p := stapsdt.NewProvider("place", opts...)
	stapsdt.NewProbe1[int](p, "event")
	fmt.Println("process", os.Getpid())
	if err := p.Load(); err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println("loaded", p.Path())
	io.Copy(io.Discard, os.Stdin)
}

var placed = regexp.MustCompile(`(?m)^(?:loaded|failed:) (.*)$`)

// placeAs runs the child as another user, and returns its path or error, and what it said on standard error.
func placeAs(t *testing.T, binary string, attributes *syscall.SysProcAttr, env ...string) (answer, said string) {
	t.Helper()
	cmd := exec.Command(binary, "file")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", append(env, "STAPSDT_TEST_CHILD=place"), attributes
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	match := placed.FindSubmatch(out)
	require.NotNil(t, match, "%s", out)
	return string(match[1]), stderr.String()
}

// TestDebug: STAPSDT_DEBUG=1 says where a provider is, of which kind, and why it is not
// somewhere better, one write for each line.
func TestDebug(t *testing.T) {
	debug := func(where string) []string {
		cmd := exec.Command("/proc/self/exe", where)
		cmd.Env = append(os.Environ(), "STAPSDT_TEST_CHILD=place", "STAPSDT_DEBUG=1", "STAPSDT_DIR=", "XDG_RUNTIME_DIR=relative",
			"TMPDIR=/nonexistent/\n")
		var out bytes.Buffer
		cmd.Stderr = &out
		require.NoError(t, cmd.Run())
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	require.Len(t, debug("memfd"), 1)
	lines := debug("file")
	require.Len(t, lines, 3)
	require.Equal(t, "stapsdt: place: skipped: $XDG_RUNTIME_DIR: it is not an absolute path", lines[0])
	require.Regexp(t, `^stapsdt: place: skipped: .*"/nonexistent/\\n/stapsdt-\d+": tracers cannot find probes in a path that contains '\\n'$`, lines[1])
	require.Regexp(t, `^stapsdt: place: placed in /proc/\d+/fd/\d+ \(nop\d+, built (in Go|by libelf)\)$`, lines[2])
}

// TestSetUserID: what the user sets has no effect on a program that has got another
// user's rights by being started.
func TestSetUserID(t *testing.T) {
	testenv.NeedsRoot(t)
	owner, user := 1000000+2*os.Getpid(), 1000001+2*os.Getpid() // no other run of this test has them
	binary, public := publicDirectory(t)
	require.NoError(t, os.Chmod(public, 0o777))
	require.NoError(t, os.Chown(binary, owner, owner))
	require.NoError(t, os.Chmod(binary, 0o755|os.ModeSetuid))
	t.Cleanup(func() { os.RemoveAll(fmt.Sprintf("/tmp/stapsdt-%d", owner)) })
	run := func(mode os.FileMode, variable string) (path, said string) {
		require.NoError(t, os.Chmod(binary, mode))
		return placeAs(t, binary, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}},
			"STAPSDT_DEBUG=1", variable+"="+public+"/theirs")
	}
	for _, variable := range []string{"STAPSDT_DIR", "XDG_RUNTIME_DIR", "TMPDIR"} {
		require.NoError(t, os.Mkdir(public+"/theirs", 0o777))
		require.NoError(t, os.Chown(public+"/theirs", user, user))
		path, said := run(0o755, variable)
		require.True(t, strings.HasPrefix(path, public+"/theirs/"), path)
		require.Contains(t, said, "placed in "+path)

		// With the owner's rights, the directory would be one that the owner can use.
		require.NoError(t, os.RemoveAll(public+"/theirs"))
		require.NoError(t, os.Mkdir(public+"/theirs", 0o700))
		require.NoError(t, os.Chown(public+"/theirs", owner, owner))
		path, said = run(0o755|os.ModeSetuid, variable)
		require.Equal(t, fmt.Sprintf("/tmp/stapsdt-%d", owner), filepath.Dir(path), variable)
		require.Empty(t, said)
		require.Empty(t, entries(t, public+"/theirs"))
		require.NoError(t, os.RemoveAll(public+"/theirs"))
	}
}

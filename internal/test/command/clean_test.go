//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cleaned is what clean -o json prints of a file.
type cleaned struct {
	File, Action, Why string
	Size, Unused      int64
}

// runClean runs clean, and returns the action for each file by its name.
func runClean(t *testing.T, status int, cmd *exec.Cmd) map[string]cleaned {
	t.Helper()
	cmd.Args = append(cmd.Args, "-o", "json")
	r := runToEnd(t, cmd)
	require.Equal(t, status, r.status, r.stderr)
	all := map[string]cleaned{}
	for _, c := range lines[cleaned](t, r.stdout) {
		all[filepath.Base(c.File)] = c
	}
	return all
}

// cleanCommand is the command for files of every age. It removes nothing of an overlay.
func cleanCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(os.TempDir(), &fs))
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		err := fmt.Errorf("%s is on an overlay: %w", os.TempDir(), unix.EAGAIN)
		testenv.NeedsMachine(t, "leases of temporary files", err, unix.EAGAIN)
	}
	return exec.Command(stapsdt(t), append([]string{"clean", "--older", "0"}, args...)...)
}

// unusedImage makes an image that no process has mapped.
func unusedImage(t *testing.T, directory string) (path string) {
	p := startProcess(t, startSubjectIn(t, directory))
	p.Say("quit")
	require.NoError(t, p.Wait(testenv.Patience))
	return imageOf(t, directory)
}

// copyTo copies an image under another name.
func copyTo(t *testing.T, image, path string) {
	content := tracetest.Must(os.ReadFile(image))(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// TestClean: what is removed is an image that is not in use, and nothing else.
func TestClean(t *testing.T) {
	directory := t.TempDir()
	image := unusedImage(t, directory)
	name := filepath.Base(image)
	hash := regexp.MustCompile(`[0-9a-f]{32}`).FindString(name)
	in := func(name string) string { return directory + "/" + name }
	// The C library's name, and a file that an interrupted run has left.
	copyTo(t, image, in("library-aB3dEf.so"))
	copyTo(t, image, in(".cleaning-"+name))
	// None of these is an image, or is under its name.
	others := []string{"text-" + hash + ".so", "program-" + hash + ".so", "link-" + hash + ".so", "directory-" + hash + ".so", name + ".bak"}
	require.NoError(t, os.WriteFile(in(others[0]), []byte("text"), 0o600))
	copyTo(t, tracetest.Build(t, "subject"), in(others[1]))
	require.NoError(t, os.Symlink(name, in(others[2])))
	require.NoError(t, os.Mkdir(in(others[3]), 0o700))
	copyTo(t, image, in(others[4]))

	images := []string{name, "library-aB3dEf.so", ".cleaning-" + name}
	check := func(action string, got map[string]cleaned) {
		t.Helper()
		require.Len(t, got, len(images))
		for _, each := range images {
			require.Equal(t, action, got[each].Action)
			require.Positive(t, got[each].Size)
		}
	}
	check("young", runClean(t, 0, exec.Command(stapsdt(t), "clean", directory)))
	check("removable", runClean(t, 0, cleanCommand(t, "--dry-run", directory)))
	require.FileExists(t, image)
	r := runToEnd(t, cleanCommand(t, directory))
	require.Regexp(t, `(?m)^removed `+regexp.QuoteMeta(image)+`: not used for [\dms]+$`, r.stdout)
	require.Regexp(t, `(?m)^3 removed \(\d+ bytes\)$`, r.stdout)
	require.Empty(t, runClean(t, 0, cleanCommand(t, directory)))
	for _, each := range others {
		_, err := os.Lstat(in(each))
		require.NoError(t, err)
	}
}

// TestCleanUsed: a file that a process has mapped, or has only opened, stays, under its name.
func TestCleanUsed(t *testing.T) {
	directory := t.TempDir()
	image := unusedImage(t, directory)
	name := filepath.Base(image)
	opened := tracetest.Must(os.Open(image))(t)
	require.Equal(t, cleaned{File: image, Action: "mapped", Why: "a process has it open"}, without(runClean(t, 0, cleanCommand(t, directory))[name]))
	require.FileExists(t, image)
	require.NoError(t, opened.Close())

	p := startProcess(t, startSubjectIn(t, directory))
	require.Contains(t, runClean(t, 0, cleanCommand(t, directory))[name].Why, "process "+pid(p)+" has mapped it")
	require.Contains(t, runToEnd(t, cleanCommand(t, directory, "-v")).stdout, "left "+image+": process "+pid(p))
	require.Equal(t, "0 removed (0 bytes), 1 in use\n", runToEnd(t, cleanCommand(t, directory)).stdout)
	tell(p, "unload")
	require.Equal(t, "removed", runClean(t, 0, cleanCommand(t, directory))[name].Action)
}

// without leaves out what differs from run to run.
func without(c cleaned) cleaned {
	c.Size, c.Unused = 0, 0
	return c
}

// TestCleanElsewhere: what a process has mapped in namespaces of its own stays, also if clean
// runs where it cannot see the process.
func TestCleanElsewhere(t *testing.T) {
	testenv.NeedsRoot(t)
	directory, bound := t.TempDir(), t.TempDir()
	script := fmt.Sprintf("mount --bind %s %s", directory, bound)
	isolated := startProcess(t, inNamespaces(t, "--mount --pid --fork", script, startSubjectIn(t, bound)))
	image := imageOf(t, directory)
	name := filepath.Base(image)
	hidden := func(args ...string) *exec.Cmd {
		return inNamespaces(t, "--mount --pid --fork --mount-proc", "", cleanCommand(t, append(args, directory)...))
	}
	stays := func(action, why string, status int, cmd *exec.Cmd) {
		t.Helper()
		c := runClean(t, status, cmd)[name]
		require.Equal(t, action, c.Action)
		require.Contains(t, c.Why, why)
		require.FileExists(t, image)
	}
	stays("mapped", "has mapped it", 0, cleanCommand(t, directory))
	stays("mapped", "a process has it open", 0, hidden())
	stays("removable", "", 0, hidden("--dry-run"))
	require.Contains(t, runToEnd(t, hidden("--dry-run")).stdout, "unless a process that cannot be seen uses them")
	// /proc is that of another namespace.
	stays("mapped", "has mapped it", 0, inNamespaces(t, "--pid --fork", "", cleanCommand(t, directory)))

	// The kernel does not say whether another user's file is in use without CAP_LEASE.
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	require.NoError(t, os.Chown(image, 65534, 65534))
	require.NoError(t, os.Chown(directory, 65534, 65534))
	stays("unseen", "the kernel does not report whether it is in use: permission denied", 4, wrap(hidden(), setpriv, "--bounding-set=-lease", "--"))
	stays("mapped", "a process has it open", 0, hidden())
	isolated.Hangup()
	require.NoError(t, isolated.Wait(testenv.Patience))
	require.Equal(t, "removed", runClean(t, 0, hidden())[name].Action, "the kernel says that it is not in use")
}

// TestCleanOverlay: a mapping of a file of an overlay is not seen as a use of it, so that
// files are left.
func TestCleanOverlay(t *testing.T) {
	testenv.NeedsRoot(t)
	files, merged := t.TempDir(), t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs none %[1]s; mkdir %[1]s/lower %[1]s/upper %[1]s/work; mount -t overlay overlay -o lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work %[2]s",
		files, merged)
	p := startProcess(t, inNamespaces(t, "--mount", script, startSubjectIn(t, merged+"/images")))
	requireAction := func(action string, status int, options ...string) {
		t.Helper()
		enter := []string{testenv.NeedsTool(t, "nsenter", "util-linux"), "-t", pid(p), "-m", "--"}
		found := runClean(t, status, wrap(cleanCommand(t, merged+"/images"), append(enter, options...)...))
		require.Len(t, found, 1)
		for _, c := range found {
			require.Equal(t, action, c.Action)
		}
	}
	hide := []string{"unshare", "--mount", "--pid", "--fork", "--mount-proc", "--"}
	requireAction("mapped", 0)
	requireAction("unseen", 4, hide...)
	tell(p, "unload")
	requireAction("unseen", 4, hide...)
}

// TestCleanWhileLoading: a process that loads while files are removed, sooner or later during
// that, keeps its file.
func TestCleanWhileLoading(t *testing.T) {
	directory := t.TempDir()
	p := startProcess(t, startSubjectIn(t, directory))
	image := imageOf(t, directory)
	tell(p, "unload")
	first := cleanCommand(t, directory) // which has built it
	begin := time.Now()
	require.Equal(t, "removed", runClean(t, 0, first)[filepath.Base(image)].Action)
	takes := time.Since(begin)
	rounds, removed := 8, 0
	if !testing.Short() {
		rounds = 40
	}
	for i := range rounds {
		tell(p, "load")
		tell(p, "unload")
		cmd := cleanCommand(t, directory)
		var stdout strings.Builder
		cmd.Stdout = &stdout
		require.NoError(t, cmd.Start())
		time.Sleep(takes * time.Duration(i) / time.Duration(rounds))
		tell(p, "load")
		require.NoError(t, cmd.Wait())
		removed += strings.Count(stdout.String(), "removed "+directory)
		maps := tracetest.Must(os.ReadFile("/proc/" + pid(p) + "/maps"))(t)
		require.NotRegexp(t, regexp.QuoteMeta(directory)+`.*\(deleted\)`, string(maps))
		require.Contains(t, string(maps), directory)
		tell(p, "unload")
	}
	t.Logf("%d of %d files were removed, in %v each", removed, rounds, takes)
}

// TestCleanDirectories: clean looks in the user's directories, in those of all users, or in the ones that are named. A directory of a
// user's name that another user has made is not this user's.
func TestCleanDirectories(t *testing.T) {
	testenv.NeedsRoot(t)
	base := t.TempDir()
	image := unusedImage(t, t.TempDir())
	mine, theirs := base+"/stapsdt-0", base+"/stapsdt-65534"
	give := func(directory string, uid int) {
		copyTo(t, image, directory+"/"+filepath.Base(image))
		require.NoError(t, os.Chown(directory, uid, uid))
		require.NoError(t, os.Chown(directory+"/"+filepath.Base(image), uid, uid))
	}
	give(mine, 0)
	give(theirs, 65534)
	found := func(args ...string) (all []string) {
		cmd := cleanCommand(t, append(args, "--dry-run")...) // there are other images in /tmp
		cmd.Env = append(os.Environ(), "STAPSDT_DIR=", "XDG_RUNTIME_DIR=", "TMPDIR="+base)
		for line := range strings.Lines(runToEnd(t, cmd).stdout) {
			if path, ok := strings.CutPrefix(line, "would remove "+base); ok {
				directory, _, _ := strings.Cut(path, "/subject-")
				all = append(all, base+directory)
			}
		}
		return all
	}
	require.Equal(t, []string{mine}, found())
	require.ElementsMatch(t, []string{mine, theirs}, found("-a"))
	require.Equal(t, []string{theirs}, found(theirs))
	give(mine, 65533)
	give(theirs, 65533)
	require.Empty(t, found("-a"))
	require.Empty(t, found())
	require.Equal(t, 3, runCommand(t, "clean", base+"/none").status)
}

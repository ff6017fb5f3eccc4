//go:build linux && (amd64 || arm64)

package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// faultErrors are, for each system call on the way of Load, Unload and Close, the
// errors of its man page that can come there. A call that is not here fails the
// test: so a new one is not forgotten.
var faultErrors = map[string][]string{
	"openat":       {"EACCES", "EMFILE", "ENFILE", "ENOSPC", "EROFS", "ENOMEM", "ELOOP", "EOPNOTSUPP", "EIO", "EINTR"},
	"mkdirat":      {"EACCES", "ENOSPC", "EROFS", "EDQUOT", "EEXIST"},
	"mkdir":        {"EACCES", "ENOSPC", "EROFS", "EDQUOT", "EEXIST"},
	"fstat":        {"EIO", "ENOMEM"},
	"newfstatat":   {"EIO", "ENOMEM"},
	"fstatfs":      {"EIO", "ENOSYS"},
	"statfs":       {"EIO", "ENOSYS"},
	"readlink":     {"EACCES", "ENOENT"},
	"readlinkat":   {"EACCES", "ENOENT"},
	"getrlimit":    {"EFAULT"},
	"prlimit64":    {"EFAULT", "EPERM"},
	"fchmod":       {"EPERM", "EIO", "EROFS"},
	"fchmodat":     {"EPERM", "EIO", "EROFS"},
	"ftruncate":    {"ENOSPC", "EIO", "EPERM"},
	"pwrite64":     {"ENOSPC", "EDQUOT", "EIO", "EFBIG", "EINTR"},
	"read":         {"EIO", "EINTR"},
	"pread64":      {"EIO", "EINTR"},
	"lseek":        {"ESPIPE"},
	"linkat":       {"EPERM", "ENOENT", "EEXIST", "ENOSPC", "EDQUOT", "EXDEV", "EOPNOTSUPP", "EMLINK"},
	"unlinkat":     {"EACCES", "EROFS", "EBUSY", "ENOENT"},
	"unlink":       {"EACCES", "EROFS"},
	"flock":        {"EAGAIN", "ENOLCK", "EINTR"},
	"mmap":         {"EACCES", "EPERM", "ENOMEM", "EAGAIN", "ENODEV", "EINVAL"},
	"mprotect":     {"EACCES", "ENOMEM"},
	"mremap":       {"ENOMEM", "EFAULT", "EINVAL"},
	"memfd_create": {"ENOSYS", "EPERM", "EACCES", "EMFILE", "ENFILE", "ENOMEM", "EINVAL"},
	"fcntl":        {"EPERM", "EBUSY", "EINVAL"},
}

// faultIgnored are calls that cannot fail, or whose failure leaves nothing to be
// done: an image that cannot be unmapped, a descriptor that close reports an error
// for, and has closed; uname, without which another kind of site is chosen, whose
// image has another name.
var faultIgnored = regexp.MustCompile(`^(close|munmap|get[a-z]*[ug]id|uname|uprobe|syscall_0x150)$`)

// faultWay is one way that a load can go.
type faultWay struct {
	name string
	// kind is where the child's images are, a demand if nowhere else, and bad a
	// file that is there in their place.
	kind string
	bad  bool
	// base are the failures, of the call of that name, without which it goes
	// another way.
	baseCall, base string
}

var faultWays = []faultWay{
	{name: "a new file", kind: "file"},
	{name: "a bad file", kind: "file", bad: true},
	{name: "a directory that was demanded", kind: "demand", bad: true},
	{name: "without O_TMPFILE", kind: "file", baseCall: "linkat", base: "linkat:error=EOPNOTSUPP:when=1"},
	{name: "in memory", kind: "memfd"},
	{name: "without memfd", kind: "file", baseCall: "memfd_create", base: "memfd_create:error=ENOSYS:when=1+"},
}

// directory makes a directory for a run, which the child is to make where nothing bad
// is to be in it.
func (w *faultWay) directory(t *testing.T, image string) string {
	dir := filepath.Join(t.TempDir(), "stapsdt")
	if w.bad {
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, image), []byte("bad"), 0o400))
	}
	return dir
}

// injections is what lets call fail with an error, on this way.
func (w *faultWay) injections(call systemCall, failure string) []string {
	if call.name == w.baseCall {
		// One rule for each call is all there is: those before fail too.
		return []string{fmt.Sprintf("%s:%s:when=1..%d", call.name, failure, call.nth)}
	}
	list := []string{fmt.Sprintf("%s:%s:when=%d", call.name, failure, call.nth)}
	if w.base != "" {
		list = append(list, w.base)
	}
	return list
}

// errors returns what to let a call fail with.
func (w *faultWay) errors(call systemCall) []string {
	list := faultErrors[call.name]
	if call.name != w.baseCall {
		return list
	}
	if call.name == "memfd_create" {
		return nil // it fails already
	}
	// Not those that the first call would take for an answer.
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool {
		return e == "EEXIST" || e == "ENOSPC" || e == "EDQUOT"
	})
}

// discover runs the child as it is, and returns the calls that it makes.
func (w *faultWay) discover(t *testing.T, image string) []systemCall {
	t.Helper()
	var injections []string
	if w.base != "" {
		injections = append(injections, w.base)
	}
	s := runStrace(injections, w.kind, w.directory(t, image), "0")
	require.NoError(t, s.err, s.out)
	require.Equal(t, "failed 0\n", s.out)
	require.Greater(t, len(s.calls), 10)
	return s.calls
}

// ownDirectory makes a directory of the test's own the only one of the environment.
func ownDirectory(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	t.Setenv("STAPSDT_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", base)
	t.Setenv("TMPDIR", "/nonexistent")
	return filepath.Join(base, "stapsdt")
}

// faultImage is the name of the file that the fault child loads. The test needs strace, and is skipped under the race detector.
func faultImage(t *testing.T) string {
	t.Helper()
	testenv.NotRaced(t, "the detector makes system calls of its own, and its programs take long to end")
	testenv.NeedsTool(t, "strace", "strace")
	dir := t.TempDir() + "/images"
	f := newDemanding(dir)
	load(t, f.p)
	require.Empty(t, f.problems)
	return filepath.Base(f.p.Path())
}

// inParallel runs what it is given, some at a time.
func inParallel(jobs []func()) {
	var group errgroup.Group
	group.SetLimit(3)
	for _, job := range jobs {
		group.Go(func() error { job(); return nil })
	}
	_ = group.Wait()
}

// TestEachSystemCallFails lets every system call of Load, Unload and Close fail,
// with the errors that it can have, or with one of them in a short test. What comes of it is judged by the child.
func TestEachSystemCallFails(t *testing.T) {
	image := faultImage(t)
	seen := map[string]bool{}
	for _, way := range faultWays {
		t.Run(way.name, func(t *testing.T) {
			var jobs []func()
			for i, call := range way.discover(t, image) {
				if call.ours() && !faultIgnored.MatchString(call.name) {
					require.NotNil(t, faultErrors[call.name], "what can %s fail with? %s", call.name, call.args)
					list := way.errors(call)
					if seen[call.kind()] && testing.Short() {
						continue
					}
					if (seen[call.kind()] || testing.Short()) && len(list) > 0 {
						list = list[i%len(list):][:1] // all were tried on one like it
					}
					seen[call.kind()] = true
					for _, failure := range list {
						jobs = append(jobs, func() { way.fail(t, image, call, failure) })
					}
				}
			}
			inParallel(jobs)
			t.Log(len(jobs), "failures")
		})
	}
}

// inject runs the child until something was done to a call, and not to another of
// its name: the runtime's, which come when they like, are counted too, also those that come only sometimes.
func (w *faultWay) inject(t *testing.T, image string, call *systemCall, what, temps string, done func(*strace) bool) (s strace) {
	for range 40 {
		dir := w.directory(t, image)
		s = runStrace(w.injections(*call, what), w.kind, dir, temps)
		s.dir = dir
		if done(&s) {
			return s
		}
		if i := slices.IndexFunc(s.calls, func(c systemCall) bool { return c.same(*call) }); i >= 0 {
			call.nth = s.calls[i].nth
			if strings.Contains(what, "EINTR") { // a call that was interrupted before it was made again
				call.nth -= s.calls[i].spoiled
			}
		}
	}
	s.err = errors.Join(s.err, errors.New("nothing was done to the call"))
	return s
}

// fail lets one call fail.
func (w *faultWay) fail(t *testing.T, image string, call systemCall, failure string) {
	temps := "0"
	if call.name == "unlinkat" {
		temps = "1" // what it was to remove
	}
	s := w.inject(t, image, &call, "error="+failure, temps, func(s *strace) bool {
		return slices.ContainsFunc(s.calls, func(c systemCall) bool { return c.injected && c.same(call) })
	})
	failed := strings.Contains(s.out, "failed 0\n") || strings.Contains(s.out, "failed 1\n") ||
		w.base != "" && strings.Contains(s.out, "failed 2\n")
	if s.err != nil || !failed || strings.Contains(s.out, "problem:") {
		t.Errorf("%s(%s) fails with %s: %v\n%s", call.name, call.args, failure, s.err, s.out)
	}
}

// TestKilledAtEachSystemCall kills the child at each system call of its first
// load. What it leaves, the next one loads, or puts right.
func TestKilledAtEachSystemCall(t *testing.T) {
	image := faultImage(t)
	for i, way := range faultWays[:4] {
		t.Run(way.name, func(t *testing.T) {
			if i > 0 {
				testenv.Long(t, "a program for each system call")
			}
			var jobs []func()
			for _, call := range way.discover(t, image) {
				if call.pair > 0 || !call.ours() || strings.HasPrefix(call.name, "syscall_") {
					continue // strace has no name for it
				}
				jobs = append(jobs, func() {
					s := way.inject(t, image, &call, "signal=KILL", "0", func(s *strace) bool { return strings.Contains(fmt.Sprint(s.err), "killed") })
					if !strings.Contains(fmt.Sprint(s.err), "killed") {
						t.Errorf("not killed at %s(%s): %v", call.name, call.args, s.err)
					}
					// Without O_TMPFILE a temporary file may be left.
					temps := "0"
					if way.base != "" {
						temps = "1"
					}
					next := exec.Command("/proc/self/exe", way.kind, s.dir, temps)
					next.Env = faultEnv("fault", s.dir)
					if out, err := next.CombinedOutput(); err != nil || string(out) != "ready\nfailed 0\n" {
						t.Errorf("killed at %s(%s), %v: %v\n%s", call.name, call.args, s.err, err, out)
					}
				})
			}
			require.Greater(t, len(jobs), 20)
			inParallel(jobs)
		})
	}
}

// TestNothingAnonymousIsExecutable: what SELinux calls execmem is asked for in
// one place only, where no memfd may be had to park a range with.
func TestNothingAnonymousIsExecutable(t *testing.T) {
	image := faultImage(t)
	for _, way := range faultWays {
		t.Run(way.name, func(t *testing.T) {
			mapped, made := 0, 0
			for _, call := range way.discover(t, image) {
				if !strings.Contains(call.args, "PROT_EXEC") || strings.Contains(call.args, "MAP_DENYWRITE") {
					continue // the latter is libelf, which the dynamic loader maps
				}
				require.NotContains(t, call.args, "PROT_WRITE")
				switch call.name {
				case "mmap":
					require.NotContains(t, call.args, "MAP_ANONYMOUS")
					mapped++
				case "mprotect":
					made++
				default:
					t.Errorf("%s(%s)", call.name, call.args)
				}
			}
			if way.baseCall == "memfd_create" {
				require.Equal(t, 2, mapped, "two loads")
				require.Equal(t, 2, made, "an unload and a close")
			} else {
				require.Equal(t, 4, mapped, "two loads, an unload and a close")
				require.Zero(t, made)
			}
		})
	}
}

// requireFine finds that a child had nothing to complain of, and that some of
// its calls have failed.
func requireFine(t *testing.T, child *tracetest.Process) {
	t.Helper()
	failed := child.Expect("failed ", testenv.Patience)
	require.NotEqual(t, "0", failed, "nothing has failed")
	require.NoError(t, child.Wait(testenv.Patience))
	for _, line := range child.Lines() {
		require.NotContains(t, line, "problem:", child.Dump())
	}
}

func TestLimits(t *testing.T) {
	dir := t.TempDir() + "/stapsdt"
	requireFine(t, tracetest.Child(t, "limit", tracetest.WithArgs(dir), tracetest.WithEnv(faultEnv("limit", dir)...)))
}

// TestVanishingFile loads while another process removes the files without pause.
func TestVanishingFile(t *testing.T) {
	dir := ownDirectory(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	child := tracetest.Child(t, "vanish", tracetest.WithArgs(dir))
	child.Expect("removing", testenv.Patience)
	vanished, inMemory := 0, 0
	start := time.Now()
	for loads := 0; loads < 200 || vanished+inMemory == 0 && time.Since(start) < testenv.Patience; loads++ {
		f := newFaulty(dir)
		require.NoError(t, f.p.Load())
		path := f.p.Path()
		if filepath.Dir(path) != dir {
			inMemory++
		} else if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			vanished++
		}
		f.idle()
		require.NoError(t, f.p.Close())
		require.Empty(t, f.problems)
	}
	require.NotZero(t, vanished+inMemory, "nothing has vanished")
	t.Log(vanished, "files vanished after the load,", inMemory, "loads went to memory")
}

// TestDirectoryDeletedWhileLoaded: the program goes on, and the next load makes
// the directory again.
func TestDirectoryDeletedWhileLoaded(t *testing.T) {
	dir := ownDirectory(t)
	f := newFaulty(dir)
	require.NoError(t, f.p.Load())
	path := f.p.Path()
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, f.probe.Fire(1, "text"))
	require.Equal(t, path, f.p.Path())
	require.NoError(t, f.p.Unload())
	require.NoError(t, f.p.Load())
	require.Equal(t, path, f.p.Path())
	f.loaded()
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, f.p.Close())
	require.NoDirExists(t, dir)
	require.Empty(t, f.problems)
}

// TestKilledProcesses kills 100 processes while they load, at any point.
func TestKilledProcesses(t *testing.T) {
	testenv.NotRaced(t, "the detector makes system calls of its own, and its programs take long to end")
	testenv.Long(t, "a hundred programs")
	dir := ownDirectory(t)
	var jobs []func()
	for range 100 {
		child := tracetest.Child(t, "killed", tracetest.WithArgs(dir), tracetest.WithEnv(faultEnv("killed", dir)...))
		jobs = append(jobs, func() { child.Signal(os.Kill) })
	}
	rand.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	for _, kill := range jobs {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		kill()
	}
	f := newFaulty(dir)
	require.False(t, f.load(), "the next load failed")
	require.Equal(t, dir, filepath.Dir(f.p.Path()))
	f.files(0)
	require.False(t, f.unload("close", f.p.Close))
	require.Empty(t, f.problems)
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// versions returns programs that differ in where their code and their probe files:hit are. Each
// fires as often as its argument says, and then prints how many of its sums were wrong: an
// instruction that a tracer has changed makes another sum. The first one has no probe.
func versions(t testing.TB, count int) (programs []string) {
	t.Helper()
	gcc := needsSDT(t)
	for i := range count {
		path := filepath.Join(t.TempDir(), fmt.Sprint("version", i))
		out, err := exec.Command(gcc, "-O1", "-Wall", "-o", path, fmt.Sprint("-DVERSION=", i), "testdata/version.c").CombinedOutput()
		require.NoError(t, err, "%s", out)
		programs = append(programs, path)
	}
	return programs
}

// overwrite writes a program into the file of another one, as cp does.
func overwrite(t testing.TB, program, to string) {
	t.Helper()
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	// A process that another test forks now would have the file open for writing until its exec,
	// and the file could not be run before that.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = file.Write(content)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// replace writes a program to a new file, as gcc -o does.
func replace(t testing.TB, program, to string) {
	t.Helper()
	_ = os.Remove(to)
	overwrite(t, program, to)
}

// requireRightSums runs a version, and requires that no tracer has changed what it computes.
func requireRightSums(t testing.TB, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "wrong sums 0\n")
}

// tracerOf is a way to count the events of files:hit of a file.
type tracerOf func(t *testing.T, file string) (count func() int)

// tracersOf are the ways in which a tracer knows a file: by the processes of the machine, and by
// its path.
var tracersOf = map[string]tracerOf{
	"export": func(t *testing.T, _ string) func() int {
		e := startExporter(t, "files", `metrics: [{name: hit_total, counter: 1, probe: "PROVIDER:hit", labels: []}]`)
		return func() int { return int(e.scrape()["hit_total"]) }
	},
	"trace -a": func(t *testing.T, _ string) func() int { return startCountingTrace(t, "-a", "files:hit") },
	"without leases": func(t *testing.T, _ string) func() int {
		return startCounting(t, traceWithoutLeases(t, "-a", "files:hit"))
	},
	"trace FILE": func(t *testing.T, file string) func() int { return startCountingTrace(t, file+":files:hit") },
	"trace FILE without leases": func(t *testing.T, file string) func() int {
		makeReadable(t, file)
		return startCounting(t, traceWithoutLeases(t, file+":files:hit"))
	},
}

func startCountingTrace(t *testing.T, args ...string) func() int {
	return startCounting(t, exec.Command(stapsdt(t), append([]string{"trace", "-o", "json"}, args...)...))
}

// traceWithoutLeases is trace as another user, who may look at all processes, but not take leases on the
// files of others.
func traceWithoutLeases(t *testing.T, args ...string) *exec.Cmd {
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	command := filepath.Join(t.TempDir(), "stapsdt")
	copyProgram(t, stapsdt(t), command)
	makeReadable(t, command)
	const set = "-all,+bpf,+perfmon,+sys_ptrace,+checkpoint_restore,+dac_read_search"
	return exec.Command(setpriv, append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=" + set, "--ambient-caps=" + set,
		"--bounding-set=" + set, "--", command, "trace", "-o", "json"}, args...)...)
}

// startCounting starts a command that traces, and waits until it does.
func startCounting(t *testing.T, cmd *exec.Cmd) func() int {
	tr := &tracer{tracetest.Command(t, cmd), t}
	require.Eventually(t, func() bool { return len(linksOf(t, tr)) > 0 || strings.Contains(tr.Dump(), "waiting for one") }, testenv.Patience, 5*time.Millisecond)
	return func() int { return len(tr.Lines()) }
}

// TestFileWritten: a program that is deployed by copying over its file computes what it should
// whatever traces it, and each version's own probes are counted.
func TestFileWritten(t *testing.T) {
	testenv.NeedsRoot(t)
	programs := versions(t, 4)
	for name, traces := range tracersOf {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app")
			overwrite(t, programs[1], file)
			count := traces(t, file)
			fired := 0
			for i, write := range []func(testing.TB, string, string){
				overwrite, overwrite, replace, overwrite, replace, replace, overwrite, overwrite,
			} {
				version := 1 + i%3
				write(t, programs[version], file)
				requireRightSums(t, file, "20", "300")
				fired += 20
				require.Eventually(t, func() bool { return count() == fired }, testenv.Patience, 5*time.Millisecond, "%d of version %d: %d", fired, version, count())
			}
		})
	}
}

// TestFileRead: a file without the probe is looked at again as soon as another version is in it,
// whether that is in the same file or in another one with the same inode.
func TestFileRead(t *testing.T) {
	testenv.NeedsRoot(t)
	programs := versions(t, 2)
	for _, name := range []string{"export", "trace -a", "without leases"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app")
			count := tracersOf[name](t, file)
			fired := 0
			for i, write := range []func(testing.TB, string, string){overwrite, replace, overwrite, replace} {
				write(t, programs[0], file)
				if i == 0 {
					time.Sleep(1200 * time.Millisecond) // until the result for the file is kept for long
				}
				requireRightSums(t, file, "1", "300")
				write(t, programs[1], file)
				requireRightSums(t, file, "20", "300")
				fired += 20
				require.Eventually(t, func() bool { return count() == fired }, testenv.Patience, 5*time.Millisecond, "%d: %d", fired, count())
			}
		})
	}
}

// TestFileStorm: several files are written over and over, while they run and after, by a tracer
// of each kind.
func TestFileStorm(t *testing.T) {
	testenv.NeedsRoot(t)
	rounds := 4
	if !testing.Short() {
		rounds = 20
	}
	programs := versions(t, 6)[1:]
	dir := t.TempDir()
	var files, args []string
	for i := range 4 {
		file := filepath.Join(dir, fmt.Sprint("app", i))
		overwrite(t, programs[i], file)
		files, args = append(files, file), append(args, file+":files:hit")
	}
	seen := map[string]func() int{
		"export":     tracersOf["export"](t, ""),
		"trace -a":   tracersOf["trace -a"](t, ""),
		"trace FILE": startCountingTrace(t, args...),
		"without":    tracersOf["without leases"](t, ""),
	}
	const each = 10
	var all sync.WaitGroup
	for i, file := range files {
		all.Go(func() {
			for round := range rounds {
				program := programs[(i+round)%len(programs)]
				running := exec.Command(file, "0", "200")
				require.NoError(t, running.Start())
				if i%2 == 0 {
					require.NoError(t, running.Wait())
					overwrite(t, program, file)
				} else {
					replace(t, program, file)
					_ = running.Wait()
				}
				requireRightSums(t, file, strconv.Itoa(each), "1000")
			}
		})
	}
	all.Wait()
	for name, count := range seen {
		want := each * rounds * len(files)
		require.Eventually(t, func() bool { return count() >= want }, testenv.Patience, 50*time.Millisecond, "%s: %d of %d", name, count(), want)
		require.Equal(t, want, count(), name)
	}
}

// TestFileTwice: in two mount namespaces there are files of the same path, device and inode, for all
// that /proc/PID/maps shows.
func TestFileTwice(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsTool(t, "unshare", "util-linux")
	programs, dir := versions(t, 3), t.TempDir()
	count := tracersOf["trace -a"](t, "")
	const script = `mount -t tmpfs none "$0"; cd "$0"; mkdir lower upper work root; cp "$1" lower/app
		mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none root; stat -c "inode %i" root/app; exec "$0/root/app" 20 1000`
	var inodes []string
	var running []*tracetest.Process
	for _, program := range programs[1:] {
		p := tracetest.Command(t, exec.Command("unshare", "--mount", "sh", "-ec", script, dir, program))
		inodes = append(inodes, p.Expect("inode ", testenv.Patience))
		running = append(running, p)
	}
	require.Equal(t, inodes[0], inodes[1])
	for _, p := range running {
		require.NoError(t, p.Wait(testenv.Patience))
		require.Contains(t, p.Lines(), "wrong sums 0")
	}
	require.Eventually(t, func() bool { return count() == 40 }, testenv.Patience, 5*time.Millisecond, "%d", count())
}

// TestLibraryWritten: a library that is overwritten while a program has mapped it, which the kernel
// permits, has the same content as without a tracer, and continues to be traced.
func TestLibraryWritten(t *testing.T) {
	testenv.NeedsRoot(t)
	gcc, dir := needsSDT(t), t.TempDir()
	makes := func(name string, flags ...string) string {
		path := filepath.Join(dir, name)
		out, err := exec.Command(gcc, append(flags, "-O1", "-Wall", "-o", path, "testdata/library.c", "-ldl")...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return path
	}
	first, second := makes("first.so", "-shared", "-fPIC", "-DVALUE=1"), makes("second.so", "-shared", "-fPIC", "-DVALUE=2")
	library := filepath.Join(dir, "library.so")
	overwrite(t, first, library)
	p := tracetest.Command(t, exec.Command(makes("program"), library))
	p.Expect("ready", testenv.Patience)
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "library:hit")
	tell(p, "fire")
	overwrite(t, second, library)
	require.Eventually(t, func() bool { return isTraced(t, p) }, testenv.Patience, 5*time.Millisecond)
	tell(p, "fire")
	require.Len(t, tr.stop(), 2)
	require.Equal(t, []string{"value 1", "value 2"}, slices.DeleteFunc(p.Lines(), func(line string) bool { return !strings.HasPrefix(line, "value") }))
}

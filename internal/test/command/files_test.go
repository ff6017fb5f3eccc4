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
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// versions returns programs that differ in where their code and their probe hit are, whose provider no other
// test has. Each fires as often as its argument says, and then prints how many of its sums were wrong: an
// instruction that a tracer has changed makes another sum. The first one has no probe.
func versions(t testing.TB, count int) (provider string, programs []string) {
	t.Helper()
	gcc := needsSDT(t)
	provider = unique("files")
	for i := range count {
		path := filepath.Join(t.TempDir(), fmt.Sprint("version", i))
		runTool(t, exec.Command(gcc, "-O1", "-Wall", "-o", path, fmt.Sprint("-DVERSION=", i), "-DPROVIDER="+provider, "testdata/version.c"))
		programs = append(programs, path)
	}
	return provider, programs
}

// overwrite writes a program into the file of another one, as cp does.
func overwrite(t testing.TB, program, to string) {
	t.Helper()
	content := tracetest.Must(os.ReadFile(program))(t)
	writeProgram(t, content, to)
}

// writeProgram writes a program to a file.
func writeProgram(t testing.TB, content []byte, to string) {
	t.Helper()
	// A process that another test forks now would have the file open for writing until its exec,
	// and the file could not be run before that.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(to, content, 0o755))
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
	out := runTool(t, exec.CommandContext(ctx, program, args...))
	require.Contains(t, string(out), "wrong sums 0\n")
}

// requireTraced runs a version, lets it fire as soon as a tracer is attached to it, and requires that the tracer has
// not changed what it computes.
func requireTraced(t testing.TB, program string, fires int) {
	t.Helper()
	sites := tracetest.Must(sdt.ReadFile(program))(t)
	p := tracetest.Command(t, exec.Command(program, strconv.Itoa(fires), "-"))
	content := tracetest.Must(os.ReadFile(program))(t)
	require.Eventually(t, func() bool { // there is a breakpoint in the place of the nop
		b := make([]byte, 1)
		err := tracetest.ReadMapped(p.PID(), program, sites[0].Offset, b)
		return err == nil && b[0] != content[sites[0].Offset]
	}, testenv.Patience, time.Millisecond)
	p.Say("fire")
	require.NoError(t, p.Wait(testenv.Patience))
	require.Contains(t, p.Lines(), "wrong sums 0")
}

// tracerOf is a way to count the events of a version of a file.
type tracerOf func(t *testing.T, provider, file string) (count func() int)

// tracersOf are the ways in which a tracer knows a file: by the processes of the machine, and by
// its path.
var tracersOf = map[string]tracerOf{
	"export": func(t *testing.T, provider, _ string) func() int {
		e := startExporter(t, provider, `metrics: [{name: hit_total, counter: 1, probe: "PROVIDER:hit", labels: []}]`)
		return func() int { return int(e.scrape()["hit_total"]) }
	},
	"trace -a": func(t *testing.T, provider, _ string) func() int { return startCountingTrace(t, "-a", provider+":hit") },
	"without leases": func(t *testing.T, provider, _ string) func() int {
		return startCounting(t, traceWithoutLeases(t, "-a", provider+":hit"))
	},
	"trace FILE": func(t *testing.T, provider, file string) func() int {
		return startCountingTrace(t, file+":"+provider+":hit")
	},
	"trace FILE without leases": func(t *testing.T, provider, file string) func() int {
		makeReadable(t, file)
		return startCounting(t, traceWithoutLeases(t, file+":"+provider+":hit"))
	},
}

func startCountingTrace(t *testing.T, args ...string) func() int {
	return startCounting(t, exec.Command(stapsdt(t), append([]string{"trace", "-o", "json"}, args...)...))
}

// traceWithoutLeases is trace as another user, who may look at all processes, but not take leases on the
// files of others.
func traceWithoutLeases(t *testing.T, args ...string) *exec.Cmd {
	return asUser(t, "-all,+bpf,+perfmon,+sys_ptrace,+checkpoint_restore,+dac_read_search", stapsdt(t), append([]string{"trace", "-o", "json"}, args...)...)
}

// startCounting starts a command that traces, and waits until it does.
func startCounting(t *testing.T, cmd *exec.Cmd) func() int {
	tr := &tracer{tracetest.Command(t, cmd), t}
	require.Eventually(t, func() bool { return isAttached(tr) || strings.Contains(tr.Dump(), "waiting for one") }, testenv.Patience, 5*time.Millisecond)
	return func() int { return len(tr.Lines()) }
}

// TestFileWritten: a program that is deployed by copying over its file computes what it should
// whatever traces it, and each version's own probes are counted.
func TestFileWritten(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	for name, traces := range tracersOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, programs := versions(t, 4)
			file := filepath.Join(t.TempDir(), "app")
			overwrite(t, programs[1], file)
			count := traces(t, provider, file)
			fired := 0
			for i, write := range []func(testing.TB, string, string){
				overwrite, overwrite, replace, overwrite, replace, replace, overwrite, overwrite,
			} {
				version := 1 + i%3
				write(t, programs[version], file)
				requireTraced(t, file, 20)
				fired += 20
				require.Eventually(t, func() bool { return count() == fired }, testenv.Patience, 5*time.Millisecond, "%d of version %d: %d", fired, version, count())
			}
		})
	}
}

// TestFileRead: a file without the probe is looked at again as soon as another version is in it,
// whether that is in the same file or in another one with the same inode.
func TestFileRead(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	for _, name := range []string{"export", "trace -a", "without leases"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, programs := versions(t, 2)
			file := filepath.Join(t.TempDir(), "app")
			count := tracersOf[name](t, provider, file)
			fired := 0
			for i, write := range []func(testing.TB, string, string){overwrite, replace, overwrite, replace} {
				write(t, programs[0], file)
				if i == 0 {
					time.Sleep(1200 * time.Millisecond) // until the result for the file is kept for long
				}
				requireRightSums(t, file, "1", "300")
				write(t, programs[1], file)
				requireTraced(t, file, 20)
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
	testenv.Long(t, "programs run for a second each, in which all tracers are to find them")
	const rounds = 20
	provider, programs := versions(t, 6)
	programs = programs[1:]
	dir := t.TempDir()
	var files, args []string
	for i := range 4 {
		file := filepath.Join(dir, fmt.Sprint("app", i))
		overwrite(t, programs[i], file)
		files, args = append(files, file), append(args, file+":"+provider+":hit")
	}
	seen := map[string]func() int{
		"export":     tracersOf["export"](t, provider, ""),
		"trace -a":   tracersOf["trace -a"](t, provider, ""),
		"trace FILE": startCountingTrace(t, args...),
		"without":    tracersOf["without leases"](t, provider, ""),
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
	t.Parallel()
	testenv.NeedsOverlay(t)
	testenv.NeedsTool(t, "unshare", "util-linux")
	provider, programs := versions(t, 3)
	dir := t.TempDir()
	count := tracersOf["trace -a"](t, provider, "")
	const script = `mount -t tmpfs none "$0"; cd "$0"; mkdir lower upper work root; cp "$1" lower/app
		mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none root; stat -c "inode %i" root/app; exec "$0/root/app" 20 -`
	var inodes []string
	var running []*tracetest.Process
	for _, program := range programs[1:] {
		p := tracetest.Command(t, exec.Command("unshare", "--mount", "sh", "-ec", script, dir, program))
		inodes = append(inodes, p.Expect("inode ", testenv.Patience))
		running = append(running, p)
	}
	require.Equal(t, inodes[0], inodes[1])
	for _, p := range running {
		require.Eventually(t, func() bool { return isTraced(p) }, testenv.Patience, 5*time.Millisecond)
		p.Say("fire")
		require.NoError(t, p.Wait(testenv.Patience))
		require.Contains(t, p.Lines(), "wrong sums 0")
	}
	require.Eventually(t, func() bool { return count() == 40 }, testenv.Patience, 5*time.Millisecond, "%d", count())
}

// TestLibraryWritten: a library that is overwritten while a program has mapped it, which the kernel
// permits, has the same content as without a tracer, and continues to be traced.
func TestLibraryWritten(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	gcc, dir := needsSDT(t), t.TempDir()
	makes := func(name string, flags ...string) string {
		path := filepath.Join(dir, name)
		runTool(t, exec.Command(gcc, append(flags, "-O1", "-Wall", "-o", path, "testdata/library.c", "-ldl")...))
		return path
	}
	first, second := makes("first.so", "-shared", "-fPIC", "-DVALUE=1"), makes("second.so", "-shared", "-fPIC", "-DVALUE=2")
	library := filepath.Join(dir, "library.so")
	overwrite(t, first, library)
	p := startProcess(t, exec.Command(makes("program"), library))
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "library:hit")
	tell(p, "fire")
	overwrite(t, second, library)
	require.Eventually(t, func() bool { return isTraced(p) }, testenv.Patience, 5*time.Millisecond)
	tell(p, "fire")
	require.Len(t, tr.stop(), 2)
	require.Equal(t, []string{"value 1", "value 2"}, slices.DeleteFunc(p.Lines(), func(line string) bool { return !strings.HasPrefix(line, "value") }))
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// startStacker starts the program in Go whose stacks are known, built with flags in an environment, and stripped if
// strip is true.
func startStacker(t testing.TB, strip bool, env []string, flags ...string) *tracetest.Process {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stacker")
	build := exec.Command("go", append(append([]string{"build", "-o", program}, flags...), "./stacker")...)
	build.Env = append(os.Environ(), env...)
	runTool(t, build)
	if strip {
		runTool(t, exec.Command(testenv.NeedsTool(t, "strip", "binutils"), program))
	}
	return startIn(t, t.TempDir(), exec.Command(program))
}

// startCStacker starts the program in C whose stacks are known.
func startCStacker(t testing.TB, flags ...string) *tracetest.Process {
	t.Helper()
	return startProcess(t, exec.Command(cStackerPath(t, flags...)))
}

// cStackerPath builds that program.
func cStackerPath(t testing.TB, flags ...string) (program string) {
	t.Helper()
	gcc := needsSDT(t)
	program = filepath.Join(t.TempDir(), "stack")
	args := append([]string{"-O2", "-Wall", "-pthread", "-o", program, "testdata/stack.c"}, flags...)
	runTool(t, exec.Command(gcc, args...))
	return program
}

// withFrames makes gcc keep frame pointers everywhere.
var withFrames = []string{"-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"}

// stopFolding interrupts the command, and returns its stacks and how often they were seen.
func (tr *tracer) stopFolding() map[string]int {
	tr.t.Helper()
	tr.interrupt()
	all := map[string]int{}
	for _, line := range tr.Lines() {
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(line[i+1:])
		require.NoError(tr.t, err, line)
		all[line[:i]] += n
	}
	return all
}

// TestStackGo: Go's functions, the inlined one too, in programs that are stripped and that
// have no fixed address, and their lines as the program's own runtime sees them.
func TestStackGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strip bool
		flags []string
		env   []string
	}{
		"plain":                 {false, nil, nil},
		"stripped":              {true, []string{"-ldflags=-s -w"}, nil},
		"pie stripped":          {true, []string{"-buildmode=pie"}, nil},
		"Go 1.25":               {false, nil, []string{"GOTOOLCHAIN=go1.25.0"}},
		"Go 1.27":               {false, nil, []string{"GOTOOLCHAIN=go1.27.4"}},
		"Go 1.27, pie stripped": {true, []string{"-buildmode=pie"}, []string{"GOTOOLCHAIN=go1.27.4"}},
		"Go 1.27, cgo":          {false, nil, []string{"GOTOOLCHAIN=go1.27.4", "CGO_ENABLED=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != nil {
				testenv.Long(t, "it builds the program by another version of Go")
			}
			p := startStacker(t, c.strip, c.env, c.flags...)
			tr := startTrace(t, p, "stack", "-o", "folded", "-p", pid(p), "stacker:hit")
			text := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "stack", "-p", pid(p), "stacker:hit", "-w", "arg0 == 25")), t}
			require.Eventually(t, func() bool { return isAttached(text) }, testenv.Patience, 5*time.Millisecond)
			tell(p, "call 30")
			tell(p, "spawn 20")
			tell(p, "deep 200")
			p.Say("stack")
			known, _ := strings.CutPrefix(p.WaitLine("stack ", testenv.Patience), "stack ")
			const top = "stacker:hit;runtime.goexit;"
			require.Equal(t, map[string]int{
				top + "runtime.main;main.main;main.outer;main.inlined;main.inner": 30,
				top + "main.main.func1": 20,
				// Of 127 frames, the first is the site.
				"stacker:hit;[cut: too deep]" + strings.Repeat(";main.deep", 126): 1,
			}, tr.stopFolding())
			text.interrupt()
			lines := text.Lines()
			require.Regexp(t, `^COUNT  PERCENT  PROBE$`, lines[0])
			require.Equal(t, "    1   100.0%  stacker:hit", lines[1])
			require.Len(t, lines, 2+len(strings.Split(known, ";")))
			for i, want := range strings.Split(known, ";") {
				// The runtime's own line in main.inner is that of printStack.
				want = regexp.MustCompile(`^(main\.inner|main\.main) .*`).ReplaceAllString(want, "$1 (main.go:")
				require.Contains(t, lines[2+i], want)
			}
		})
	}
}

// TestStackC: functions of C, the demangled names of C++, a thread's, and those that a
// just-in-time compiler has made.
func TestStackC(t *testing.T) {
	t.Parallel()
	p := startCStacker(t, withFrames...)
	t.Cleanup(func() { os.Remove("/tmp/perf-" + pid(p) + ".map") })
	tr := startTrace(t, p, "stack", "-o", "folded", "-p", pid(p), "cstack:hit")
	tell(p, "call 3")
	tell(p, "thread")
	tell(p, "jit")
	tell(p, "deep 200")
	const work = "outer;shop::order(int);inner"
	got := map[string]int{}
	for stack, n := range tr.stopFolding() {
		// What calls main and a thread's function has a name only if libc's symbols are installed.
		got[regexp.MustCompile(`;(\[cut: no frame pointer\]|([\w.]*libc\S*?\+0x\w+|start_thread|__libc_start_call_main|clone3?)\b)`).ReplaceAllString(stack, "")] += n
	}
	require.Equal(t, map[string]int{
		"cstack:hit;main;" + work: 3, "cstack:hit;thread;" + work: 1, "cstack:hit;main;jit;generated by a test;" + work: 1,
		"cstack:hit;[cut: too deep]" + strings.Repeat(";deep", 126) + ";inner": 1,
	}, got)
}

// strippedStacker builds the program in C whose stacks are known, and separates its debug information
// from it.
func strippedStacker(t testing.TB) (program, debug string) {
	t.Helper()
	program = cStackerPath(t, append([]string{"-g"}, withFrames...)...)
	debug = filepath.Join(t.TempDir(), "stack.debug")
	objcopy := testenv.NeedsTool(t, "objcopy", "binutils")
	runTool(t, exec.Command(objcopy, "--only-keep-debug", program, debug))
	runTool(t, exec.Command(testenv.NeedsTool(t, "strip", "binutils"), program))
	runTool(t, exec.Command(objcopy, "--add-gnu-debuglink="+debug, program))
	return program, debug
}

// TestStackStripped: static functions of a stripped program have their names from a debug file that
// the user names, or that is in the mount namespace of the program.
func TestStackStripped(t *testing.T) {
	testenv.NeedsRoot(t)
	program, debug := strippedStacker(t)
	stacks := func(t *testing.T, p *tracetest.Process, args ...string) (own map[string]int) {
		args = append([]string{"stack", "-o", "folded", "cstack:hit", "--by", "pid"}, args...)
		tr := startTrace(t, p, args...)
		tell(p, "call 3")
		own = map[string]int{}
		for stack, n := range tr.stopFolding() {
			if after, is := strings.CutPrefix(stack, "cstack:hit;pid="+pid(p)+";"); is {
				own[regexp.MustCompile(`^.*;main;`).ReplaceAllString(after, "main;")] += n
			}
		}
		return own
	}
	want := map[string]int{"main;outer;shop::order(int);inner": 3}
	t.Run("named", func(t *testing.T) {
		p := startProcess(t, exec.Command(program))
		require.NotEqual(t, want, stacks(t, p, "-p", pid(p)))
		require.Equal(t, want, stacks(t, p, "-p", pid(p), "--debug-file", debug))
	})
	t.Run("container", func(t *testing.T) {
		inside := t.TempDir()
		script := fmt.Sprintf("mount -t tmpfs none %[1]s; mkdir %[1]s/.debug; cp %[2]s %[1]s; cp %[3]s %[1]s/.debug", inside, program, debug)
		p := startProcess(t, inNamespaces(t, "--mount", script, exec.Command(inside+"/stack")))
		require.NoFileExists(t, inside+"/stack")
		require.Equal(t, want, stacks(t, p, "-a"))
	})
}

// TestStackCut: without frame pointers there are no callers, and the stack says so.
func TestStackCut(t *testing.T) {
	t.Parallel()
	p := startCStacker(t, "-fomit-frame-pointer")
	tr := startTrace(t, p, "stack", "-o", "folded", "-p", pid(p), "cstack:hit")
	tell(p, "call 5")
	require.Equal(t, map[string]int{"cstack:hit;[cut: no frame pointer];inner": 5}, tr.stopFolding())
}

// TestStackMany: each event is counted with its stack, although many stacks are at the same
// place of the kernel's table, or is counted as lost.
func TestStackMany(t *testing.T) {
	t.Parallel()
	p := startCStacker(t, withFrames...)
	tr := startTrace(t, p, "stack", "-o", "folded", "-p", pid(p), "cstack:hit")
	tell(p, "paths 10")
	tell(p, "paths 10")
	sum := 0
	got := tr.stopFolding()
	for stack, n := range got {
		require.Equal(t, 2, n, stack)
		require.Regexp(t, `;main;turn;.*;turn;inner$`, stack)
		require.Equal(t, 11, strings.Count(stack, ";turn"))
		sum += n
	}
	require.Equal(t, 2<<10, sum+tr.lost())
	require.Greater(t, len(got), 1000)
}

// TestStackExit: the functions of a process are known when it has exited, and its file was
// removed.
func TestStackExit(t *testing.T) {
	t.Parallel()
	p := startStacker(t, true, nil)
	tr := startTrace(t, p, "stack", "-o", "folded", "-p", pid(p), "stacker:hit")
	require.NoError(t, os.Remove(tracetest.Must(os.Readlink("/proc/"+pid(p)+"/exe"))(t)))
	p.Say("quit")
	require.NoError(t, tr.Wait(testenv.Patience))
	require.Equal(t, []string{"stacker:hit;runtime.goexit;runtime.main;main.main;main.outer;main.inlined;main.inner 1"}, tr.Lines())
}

// TestStackContainer: the files of a program are found in its mount namespace.
func TestStackContainer(t *testing.T) {
	testenv.NeedsRoot(t)
	program, inside := cStackerPath(t, withFrames...), t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs none %[1]s; cp %[2]s %[1]s", inside, program)
	p := startProcess(t, inNamespaces(t, "--mount", script, exec.Command(inside+"/stack")))
	tr := startTrace(t, p, "stack", "-o", "folded", "-a", "cstack:hit", "--by", "pid")
	tell(p, "call 3")
	for stack, n := range tr.stopFolding() {
		if strings.HasPrefix(stack, "cstack:hit;pid="+pid(p)+";") {
			require.True(t, strings.HasSuffix(stack, ";main;outer;shop::order(int);inner"), stack)
			require.Equal(t, 3, n)
			return
		}
	}
	require.Fail(t, "the stack is missing")
}

// TestStackBy: counts, parts, the values of --by, and those stacks that are not shown.
func TestStackBy(t *testing.T) {
	t.Parallel()
	p := startCStacker(t, withFrames...)
	tr := startTrace(t, p, "stack", "-p", pid(p), "cstack:hit", "--by", "arg0%2, comm", "-w", "arg0 < 8", "-n", "1")
	tell(p, "call 9")
	tell(p, "deep 0")
	tr.interrupt()
	lines := tr.Lines()
	require.Equal(t, []string{"COUNT  PERCENT  PROBE", "    4    44.4%  cstack:hit arg0%2=0 comm=\"stack\"", "                  inner (stack)",
		"                  shop::order(int) (stack)", "                  outer (stack)", "                  main (stack)"}, lines[:6])
	require.Equal(t, "    5    55.6%  from 2 other stacks", lines[len(lines)-1])
}

// TestStackProfile: the tool of Go reads the profile.
func TestStackProfile(t *testing.T) {
	t.Parallel()
	terminal := tracetest.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	defer terminal.Close()
	cmd := exec.CommandContext(t.Context(), stapsdt(t), "stack", "-o", "pprof", "-a", "stacker:hit", "-d", "10s")
	cmd.Env = append(os.Environ(), "TERM=dumb")
	cmd.Stdout = terminal
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode(), "a terminal is refused")

	p := startStacker(t, true, nil)
	file := filepath.Join(t.TempDir(), "fired.pb.gz")
	tr := startTrace(t, p, "stack", "-o", "pprof", "-O", file, "-p", pid(p), "stacker:hit", "--by", "arg0")
	tell(p, "call 3")
	tell(p, "spawn 2")
	tr.interrupt()
	require.Empty(t, tr.Lines())
	tool := func(args ...string) string {
		out := runTool(t, exec.Command("go", append(append([]string{"tool", "pprof"}, args...), file)...))
		return string(out)
	}
	top := tool("-top")
	require.Contains(t, top, "Type: events\n")
	require.Regexp(t, `(?m)^ +3 60\.00% +60\.00% +3 60\.00% +main\.inner$`, top)
	require.Regexp(t, `(?m)^ +0 +0% +100% +5 +100% +runtime\.goexit$`, top)
	require.Regexp(t, `(?m)^ +0 +0% +100% +3 60\.00% +main\.inlined \(inline\)$`, top)
	require.Regexp(t, `(?s)arg0: Total 5 .*\n +2 \(40\.00%\): 0\n.*probe: Total 5 .*\n +5 \( +100%\): stacker:hit\n`, tool("-tags"))
	require.Regexp(t, fmt.Sprintf(`%s/stacker/main\.go:\d+`, regexp.QuoteMeta(tracetest.Must(os.Getwd())(t))), tool("-top", "-lines", "-show=main.inner"))
}

// inliner builds the program in C whose functions are inlined in each other.
func inliner(t testing.TB, flags ...string) (program string) {
	t.Helper()
	gcc := needsSDT(t)
	program = filepath.Join(t.TempDir(), "inlined")
	args := []string{"-O2", "-Wall", "-o", program, "testdata/inlined.c"}
	runTool(t, exec.Command(gcc, slices.Concat(args, withFrames, flags)...))
	return program
}

// lineOf returns the number of the line of the program in C that contains a text.
func lineOf(t testing.TB, text string) int {
	t.Helper()
	source := tracetest.Must(os.ReadFile("testdata/inlined.c"))(t)
	before, _, found := strings.Cut(string(source), text)
	require.True(t, found)
	return 1 + strings.Count(before, "\n")
}

// TestStackInlined: the functions that a compiler has inlined have frames, and each frame has the line of
// its call, from the DWARF of the program or of its debug file. Without DWARF, there are functions.
func TestStackInlined(t *testing.T) {
	t.Parallel()
	var want, file []string
	for _, at := range []string{"leaf DTRACE_PROBE1", "middle leaf(i + 1)", "outer middle(i * 2)", "main outer(line[0])"} {
		function, text, _ := strings.Cut(at, " ")
		want = append(want, fmt.Sprintf("%s (inlined.c:%d)", function, lineOf(t, text)))
		file = append(file, fmt.Sprintf("%s %s/testdata/inlined.c:%d inlined", function, tracetest.Must(os.Getwd())(t), lineOf(t, text)))
	}
	check := func(t *testing.T, program string, want []string, args ...string) {
		p := startProcess(t, exec.Command(program))
		tr := startTrace(t, p, append([]string{"stack", "-p", pid(p), "inlined:hit"}, args...)...)
		tell(p, "call 3")
		tr.interrupt()
		var got []string
		for _, line := range tr.Lines()[2:] {
			got = append(got, strings.TrimSpace(line))
		}
		require.Equal(t, want, got[:len(want)])
	}
	program := inliner(t, "-g")
	check(t, program, want)
	check(t, inliner(t, "-gdwarf-4", "-gz", "-no-pie"), want)
	check(t, inliner(t), []string{"outer (inlined)", "main (inlined)"})

	p := startProcess(t, exec.Command(program))
	tr := startTrace(t, p, "stack", "-p", pid(p), "-o", "json", "inlined:hit")
	tell(p, "call 3")
	tr.interrupt()
	var answer struct {
		Stack []struct {
			Function, File, Module string
			Line                   int
		}
	}
	objects.Decode(t, tr.Lines()[0], &answer)
	for i := range file {
		f := answer.Stack[i]
		require.Equal(t, file[i], fmt.Sprintf("%s %s:%d %s", f.Function, f.File, f.Line, f.Module))
	}

	objcopy, debug := testenv.NeedsTool(t, "objcopy", "binutils"), filepath.Join(t.TempDir(), "inlined.debug")
	runTool(t, exec.Command(objcopy, "--only-keep-debug", program, debug))
	stripped, linked := filepath.Join(t.TempDir(), "inlined"), filepath.Join(filepath.Dir(debug), "inlined")
	runTool(t, exec.Command(objcopy, "--strip-all", program, stripped))
	check(t, stripped, want, "--debug-file", debug)
	runTool(t, exec.Command(objcopy, "--add-gnu-debuglink="+debug, stripped, linked))
	check(t, linked, want)
}

// TestStackProfileClaims: a profile claims to have files, lines and inlined functions for the files for which it has
// them, so that the tool of Go looks for the others.
func TestStackProfileClaims(t *testing.T) {
	t.Parallel()
	profile := func(p *tracetest.Process, spec string) func(args ...string) string {
		file := filepath.Join(t.TempDir(), "fired.pb.gz")
		tr := startTrace(t, p, "stack", "-o", "pprof", "-O", file, "-p", pid(p), spec)
		tell(p, "call 3")
		tr.interrupt()
		require.Empty(t, tr.Lines())
		return func(args ...string) string {
			return string(runTool(t, exec.Command("go", append(append([]string{"tool", "pprof"}, args...), file)...)))
		}
	}
	bare := profile(startProcess(t, exec.Command(inliner(t))), "inlined:hit")
	require.Regexp(t, `(?m)^1: .*/inlined [0-9a-f]* *$`, bare("-symbolize=none", "-raw"))
	c := profile(startProcess(t, exec.Command(inliner(t, "-g"))), "inlined:hit")
	require.Regexp(t, `(?m)^1: .*/inlined .*\[FN\]\[FL\]\[LN\]\[IN\]$`, c("-symbolize=none", "-raw"))
	lines := c("-symbolize=none", "-top", "-lines")
	require.Regexp(t, fmt.Sprintf(`(?m) leaf .*testdata/inlined\.c:%d( |$)`, lineOf(t, "DTRACE_PROBE1")), lines)
	require.Regexp(t, fmt.Sprintf(`(?m) middle .*testdata/inlined\.c:%d \(inline\)$`, lineOf(t, "leaf(i + 1)")), lines)
	inGo := profile(startStacker(t, false, nil), "stacker:hit")
	require.Regexp(t, `(?m)^\d+: .*/stacker .*\[FN\]\[FL\]\[LN\]\[IN\]$`, inGo("-symbolize=none", "-raw"))
}

// TestStackLibrary: the function that fires a probe of the C library is there, whether the
// program has frame pointers or not, however it is linked, and whichever function it calls.
func TestStackLibrary(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	gcc, dir := testenv.NeedsTool(t, "gcc", "gcc"), t.TempDir()
	const library = "../../../cstapsdt"
	runTool(t, exec.Command(testenv.NeedsTool(t, "make", "make"), "-s", "-C", library, "OUT="+dir, dir+"/libstapsdt.a", dir+"/libstapsdt.so"))
	for name, args := range map[string][]string{
		"static": {"../../../examples/c/lines.c", dir + "/libstapsdt.a", "-lelf", "-ldl"},
		"shared": {"../../../examples/c/lines.c", "-L" + dir, "-lstapsdt", "-Wl,-rpath," + dir},
		"array":  {"testdata/array.c", dir + "/libstapsdt.a", "-lelf", "-ldl"},
	} {
		for _, flags := range [][]string{withFrames, {"-fomit-frame-pointer"}, {"-fomit-frame-pointer", "-g"}} {
			t.Run(fmt.Sprint(name, flags), func(t *testing.T) {
				program := filepath.Join(t.TempDir(), "lines")
				runTool(t, exec.Command(gcc, slices.Concat([]string{"-O2", "-I" + library, "-o", program}, flags, args)...))
				p := tracetest.Command(t, exec.Command(program))
				require.Eventually(t, func() bool { return runCommand(t, "list", "-p", pid(p)).status == 0 }, testenv.Patience, 10*time.Millisecond)
				tr := startTrace(t, p, "stack", "-p", pid(p), "lines:line__read")
				p.Say("a line")
				p.Hangup()
				require.NoError(t, tr.Wait(testenv.Patience))
				require.Equal(t, "    1   100.0%  lines:line__read", tr.Lines()[1])
				if slices.Contains(flags, "-g") { // probeFire is inlined in main
					require.Regexp(t, `^ {18}main \((lines|array)\.c:\d+\)$`, tr.Lines()[2])
				} else {
					require.Equal(t, "                  main (lines)", tr.Lines()[2])
				}
			})
		}
	}
}

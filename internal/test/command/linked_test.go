//go:build linux && (amd64 || arm64)

// What linkers make of notes and of the symbols of operands.

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// linked starts a program of C sources, which fires when it has read a line.
func linked(t *testing.T, flags []string, sources ...string) *tracetest.Process {
	t.Helper()
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "linked")
	args := append([]string{"-O1", "-o", path}, flags...)
	for i, source := range sources {
		file := fmt.Sprintf("%s%d.c", path, i)
		require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
		args = append(args, file)
	}
	runTool(t, exec.Command(needsSDT(t), args...))
	return tracetest.Command(t, exec.Command(path))
}

// TestStaticSymbols: an operand names a symbol that two sources have. Nothing says which of them is named, so that neither is read.
func TestStaticSymbols(t *testing.T) {
	const source = `#include <sys/sdt.h>
#include <stdio.h>
static volatile char state = 1;
static volatile char own%[1]d = 1;
void other(void);
void %[2]s(void) { %[3]s state = own%[1]d = 10 * %[1]d; DTRACE_PROBE2(static_symbols, probe%[1]d, state, own%[1]d); }`
	p := linked(t, nil, fmt.Sprintf(source, 1, "other", ""), fmt.Sprintf(source, 2, "main", "getchar(); other();"))
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "static_symbols:*")
	p.Say("fire")
	events := tr.waitForEnd()
	require.Len(t, events, 2)
	if runtime.GOARCH == "amd64" { // whose operands have symbols
		require.Equal(t, []any{nil, nil}, args(events, "arg0"))
	}
	require.Equal(t, []any{10.0, 20.0}, args(events, "arg1"))
}

// TestNarrowSymbol: an operand of a program of 32 bits names a symbol.
func TestNarrowSymbol(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("it is for the processors of PCs")
	}
	testenv.NeedsNarrow(t)
	include := tracetest.Must(filepath.Glob("/usr/include/*-linux-gnu"))(t)
	flags := []string{"-m32", "-fno-pic", "-no-pie", "-nostdlib", "-static", "-ffreestanding"}
	for _, dir := range include {
		flags = append(flags, "-I"+dir)
	}
	p := linked(t, flags, `#include <sys/sdt.h>
static volatile int state = 1;
static int call(int number, int a, void *b, int c) {
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}
void _start(void) {
	char c;
	call(3 /* read */, 0, &c, 1);
	state = 77;
	DTRACE_PROBE2(narrow, probe, state, 5);
	call(1 /* exit */, 0, 0, 0);
}`)
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "narrow:probe")
	p.Say("fire")
	events := tr.waitForEnd()
	require.Equal(t, []any{77.0}, args(events, "arg0"))
	require.Equal(t, []any{5.0}, args(events, "arg1"))
}

// TestFoldedNotes: two notes of one probe are at one place, as where a linker has folded functions (--icf). Each fire is one event, and
// the semaphore is raised once.
func TestFoldedNotes(t *testing.T) {
	const note = `".pushsection .note.stapsdt,\"\",%%note\n.balign 4\n.4byte 8, 994f-993f, 3\n.asciz \"stapsdt\"\n"
	"993: .8byte 990b, _.stapsdt.base, folded_semaphore\n.asciz \"folded\"\n.asciz \"hit\"\n.asciz \"\"\n994: .balign 4\n.popsection\n"
	`
	p := linked(t, []string{"-fno-pie", "-no-pie"}, `#include <sys/sdt.h>
#include <stdio.h>
__attribute__((section(".probes"))) volatile unsigned short folded_semaphore;
int main(void) {
	DTRACE_PROBE(folded, other);
	getchar();
	printf("semaphore %d\n", folded_semaphore);
	for (int i = 0; i < 20; i++)
		__asm__ volatile("990: nop\n" `+note+note+`::);
}`)
	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "folded:hit")
	p.Say("fire")
	require.Len(t, tr.waitForEnd(), 20)
	require.Contains(t, p.Lines(), "semaphore 1")
}

// TestWait: a probe of a library that the process has not loaded yet is an error, or waited for.
func TestWait(t *testing.T) {
	library := filepath.Join(t.TempDir(), "later.so")
	compileText(t, library, `#include <sys/sdt.h>
void later(void) { DTRACE_PROBE1(later, hit, 42); }`, "-shared", "-fPIC")
	p := linked(t, []string{"-ldl"}, fmt.Sprintf(`#include <dlfcn.h>
#include <stdio.h>
int main(void) {
	getchar();
	void *library = dlopen(%q, RTLD_NOW);
	getchar();
	((void (*)(void))dlsym(library, "later"))();
}`, library))
	require.Equal(t, 3, runCommand(t, "trace", "-p", pid(p), "later:hit").status)
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "trace", "--wait", "-o", "json", "-p", pid(p), "later:hit")), t}
	tr.WaitSaid(regexp.MustCompile("waiting for one"), testenv.Patience)
	p.Say("")
	require.Eventually(t, func() bool { return areTraced(p, []string{"later:hit"}) }, testenv.Patience, 20*time.Millisecond)
	p.Say("")
	require.Equal(t, []any{42.0}, args(tr.waitForEnd(), "arg0"))
}

const (
	staticPIE = "-ldflags=-linkmode=external -extldflags=-static-pie"
	static    = "-ldflags=-linkmode=external -extldflags=-static"
)

// TestBuilds: every event of programs that are linked in unusual ways is counted, with images
// that are made in Go and by the C library.
func TestBuilds(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it builds a program in many ways")
	t.Parallel()
	testenv.NeedsTool(t, "gcc", "gcc")
	for name, c := range map[string]struct {
		cc    string
		flags []string
	}{
		"PIE":            {"gcc", []string{"-buildmode=pie"}},
		"static PIE":     {"gcc", []string{"-buildmode=pie", staticPIE}},
		"static PIE, Go": {"gcc", []string{"-buildmode=pie", staticPIE, "-tags=stapsdt_nocgo"}},
		"asan":           {"gcc", []string{"-asan"}},
		"musl":           {"musl-gcc", nil},
		"musl, static":   {"musl-gcc", []string{static}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cc == "musl-gcc" {
				testenv.NeedsTool(t, c.cc, "musl-tools")
			}
			program := filepath.Join(t.TempDir(), "subject")
			buildProgram(t, "subject", program, c.cc, c.flags...)
			requireAllCounted(t, exec.Command(program))
		})
	}
	t.Run("plugin", func(t *testing.T) {
		dir := t.TempDir()
		host, plugin := filepath.Join(dir, "host"), filepath.Join(dir, "plugin.so")
		buildProgram(t, "testdata/pluginhost", host, "gcc")
		buildProgram(t, "testdata/plugin", plugin, "gcc", "-buildmode=plugin")
		requireAllCounted(t, exec.Command(host, plugin))
	})
}

// buildProgram builds the main package in a directory with cgo.
func buildProgram(t *testing.T, directory, program, cc string, flags ...string) {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"build", "-o", program}, flags...), ".")...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+cc)
	runTool(t, cmd)
}

// requireAllCounted requires that the command counts what a program fires.
func requireAllCounted(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p := startProcess(t, cmd)
	tr := startTrace(t, p, "count", "-o", "json", "-p", pid(p), "subject:request__done")
	tell(p, "fire 1000")
	rows := tr.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 1000, rows[0].Count)
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// mover is a program that moves its code to anonymous memory if it has an argument. It fires 10 times for each line.
const mover = `#define _GNU_SOURCE
#include <sys/sdt.h>
#include <sys/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void move(char *from, size_t size) {
	char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, from, size);
	if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED)
		exit(1);
}

int main(int argc, char **argv) {
	char line[512], *from = NULL, *to = NULL;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		void *start, *end;
		if (sscanf(line, "%p-%p r-xp", &start, &end) == 2 && strstr(line, "r-xp") &&
			(char *)main >= (char *)start && (char *)main < (char *)end)
			from = start, to = end;
	}
	fclose(maps);
	if (argc > 1)
		move(from, (size_t)(to - from));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		for (int i = 0; i < 10; i++)
			DTRACE_PROBE1(mover, hit, i);
		puts("ok");
		fflush(stdout);
	}
}
`

// compileMover compiles the program with flags.
func compileMover(t *testing.T, source string, flags ...string) (path string) {
	testenv.NeedsRoot(t)
	path = filepath.Join(t.TempDir(), "mover")
	compileText(t, path, source, append(flags, "-O1")...)
	return path
}

// requireSurvives requires that a program which moves its code is not ended by a tracer.
func requireSurvives(t *testing.T, path string) {
	t.Helper()
	p := startProcess(t, exec.Command(path, "move"))
	tell(p, "fire")
	p.Hangup()
	require.NoError(t, p.Wait(testenv.Patience))
}

// TestMovedCode: a process has moved the code of a program. It has nothing to trace, and later instances are spared.
func TestMovedCode(t *testing.T) {
	for name, flags := range map[string][]string{
		"position-independent": {"-pie", "-fPIE"},
		"two segments":         {"-no-pie", "-fno-pie", "-Wl,-z,noseparate-code"},
		"huge alignment":       {"-pie", "-fPIE", "-Wl,-z,max-page-size=0x200000"},
	} {
		t.Run(name, func(t *testing.T) {
			path := compileMover(t, mover, flags...)
			moved, still := startProcess(t, exec.Command(path, "move")), startProcess(t, exec.Command(path))
			says := "process " + pid(moved) + " has moved the code of " + path + " to memory that has no file"
			runCommand(t, "count", "-p", pid(moved), "mover:hit").ends(t, 3, "no such probe: "+says)
			runCommand(t, "list", "-p", pid(moved)).ends(t, 3, "no such probe: "+says)
			runCommand(t, "count", path+":mover:hit").ends(t, 3, "no such probe: "+says)
			require.Contains(t, requireFinding(t, 3, "moved", "fault", doctorCommand(t, pid(moved))).Message, path)

			leftOut := regexp.MustCompile(regexp.QuoteMeta(says) + ".*; the file is left out")
			all := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "count", "-a", "-o", "json", "mover:*")), t}
			all.WaitSaid(leftOut, testenv.Patience)
			requireSurvives(t, path)
			requireNothing(t, all)

			const rules = "metrics:\n- {name: hits_total, probe: 'PROVIDER:hit', counter: 1}\n"
			exporter := startExporter(t, "mover", rules)
			exporter.waitForMessage(leftOut.String())
			requireSurvives(t, path)

			one := startTrace(t, still, "count", "-o", "json", "-p", pid(still), "mover:hit")
			requireSurvives(t, path)
			tell(still, "fire")
			rows := one.stopCounting()
			require.Len(t, rows, 1)
			require.Equal(t, 10, rows[0].Count)
		})
	}
}

// requireNothing interrupts a command that has attached to nothing.
func requireNothing(t *testing.T, c *tracer) {
	t.Helper()
	c.Signal(os.Interrupt)
	var ended *exec.ExitError
	require.ErrorAs(t, c.Wait(testenv.Patience), &ended)
	require.Equal(t, 3, ended.ExitCode())
	require.Empty(t, c.Lines())
}

// TestHugified: the notes of a program say that BOLT lets it move its code at its start.
func TestHugified(t *testing.T) {
	const note = `
__asm__(".pushsection .note.bolt_info,\"\",%note\n.4byte 4, 2f-1f, 4\n.asciz \"GNU\"\n"
	"1: .ascii \"BOLT revision: 1, command line: llvm-bolt a --hugify --hugify-all-text -o b\\0\"\n"
	"2: .balign 4\n.popsection");
`
	path := compileMover(t, strings.Replace(mover, "static void move", note+"static void move", 1), "-s")
	const says = "moves its code to memory that has no file when it starts, because BOLT"
	runCommand(t, "count", path+":mover:hit").ends(t, 3, says)
	still := startProcess(t, exec.Command(path))
	all := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "count", "-a", "-o", "json", "mover:*")), t}
	all.WaitSaid(regexp.MustCompile(says), testenv.Patience)
	requireSurvives(t, path)
	requireNothing(t, all)

	one := startTrace(t, still, "count", "-o", "json", "-p", pid(still), "mover:hit")
	requireSurvives(t, path)
	tell(still, "fire")
	rows := one.stopCounting()
	require.Len(t, rows, 1)
	require.Equal(t, 10, rows[0].Count)
}

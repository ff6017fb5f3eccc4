//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// interpreter finds the file of a language's interpreter that has the probes.
func interpreter(t *testing.T, pattern, pkg string) string {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.Long(t, "it runs an interpreter")
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		testenv.Needs(t, pattern+" (package "+pkg+")", os.ErrNotExist)
	}
	path, err := filepath.EvalSymlinks(found[0])
	require.NoError(t, err)
	if r := runCommand(t, "list", path); r.status != 0 {
		testenv.Needs(t, "an interpreter with probes (package "+pkg+")", fmt.Errorf("%s", r.stderr))
	}
	return path
}

// startAttached starts the command, and returns when it is attached to the given number of probes.
// No process need have mapped their files.
func startAttached(t *testing.T, probes int, args ...string) *tracer {
	t.Helper()
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), append(args, "-o", "json")...)), t}
	require.Eventually(t, func() bool { return strings.Count(linksOf(t, tr), "uprobe") >= probes }, testenv.Patience, 5*time.Millisecond)
	return tr
}

// script runs a program in a language, whose file is the last word of the command. Other tests may run
// the same interpreter meanwhile.
func script(t *testing.T, source string, command ...string) (path string, pid int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	cmd := exec.Command(command[0], append(command[1:], path)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path, cmd.Process.Pid
}

// shown returns the probe and the values of each event of a process.
func shown(pid int, events []event, values ...string) (all []string) {
	for _, e := range events {
		if e.PID != pid {
			continue
		}
		line := e.Probe
		for _, v := range values {
			line += fmt.Sprint(" ", e.Args[v])
		}
		all = append(all, line)
	}
	return all
}

// TestRuby: methods of its library, exceptions, and collections of garbage.
func TestRuby(t *testing.T) {
	ruby := interpreter(t, "/usr/lib/*/libruby-*.so.*.*", "ruby")
	calls := startAttached(t, 2, "trace", ruby+":ruby:cmethod__*", "--show", "str(arg0),str(arg1),str(arg2),arg3",
		"-w", `str(arg1) == "upcase" && strings.HasPrefix(str(arg0), "St")`)
	raises := startAttached(t, 1, "trace", ruby+":ruby:raise", "--show", "str(arg0),str(arg1),arg2", "-w", `str(arg0) == "FloatDomainError"`)
	collections := startAttached(t, 2, "count", ruby+":ruby:gc__mark__*", "--by", "pid")
	path, pid := script(t, `names = %w[Ada Grace]
names.each { |name| name.upcase }
begin
  (0.0 / 0).to_i
rescue FloatDomainError
end
GC.start
`, "/usr/bin/ruby", "--disable-gems")
	call := " String upcase " + path + " 2"
	require.Equal(t, []string{"cmethod__entry" + call, "cmethod__return" + call, "cmethod__entry" + call, "cmethod__return" + call},
		shown(pid, calls.stop(), "str(arg0)", "str(arg1)", "str(arg2)", "arg3"))
	require.Equal(t, []string{"raise FloatDomainError " + path + " 4"}, shown(pid, raises.stop(), "str(arg0)", "str(arg1)", "arg2"))
	rows := slices.DeleteFunc(collections.stopCounting(), func(c counted) bool { return c.By["pid"] != float64(pid) })
	require.Len(t, rows, 2)
	require.Positive(t, rows[0].Count)
	require.Equal(t, rows[0].Count, rows[1].Count, "each that began has ended")
}

// TestPHP: functions and files, which it reports only if an environment variable says so, and
// exceptions and requests, which it always reports.
func TestPHP(t *testing.T) {
	php := interpreter(t, "/usr/bin/php", "php-cli")
	const source = `<?php
class Greeter {
    function greet($name) {
        return "hello, $name";
    }
}
$greeter = new Greeter;
foreach (["Ada", "Grace"] as $name) {
    $greeter->greet($name);
}
try {
    throw new LogicException("no");
} catch (LogicException) {
}
`
	for _, enabled := range []string{"0", "1"} {
		t.Setenv("USE_ZEND_DTRACE", enabled)
		calls := startAttached(t, 1, "trace", php+":php:function__entry", "--show", "str(arg0),str(arg1),arg2,str(arg3),str(arg4)")
		thrown := startAttached(t, 1, "trace", php+":php:exception__thrown", "--show", "str(arg0)")
		compiled := startAttached(t, 1, "trace", php+":php:compile__file__entry", "--show", "str(arg0)")
		requests := startAttached(t, 2, "trace", php+":php:request__*", "--show", "str(arg0)")
		path, pid := script(t, source, "/usr/bin/php")
		var want, files []string
		if enabled == "1" {
			greet := "function__entry greet " + path + " 4 Greeter ::"
			want = []string{"function__entry main " + path + " 7  ", greet, greet}
			files = []string{"compile__file__entry " + path}
		}
		require.Equal(t, want, shown(pid, calls.stop(), "str(arg0)", "str(arg1)", "arg2", "str(arg3)", "str(arg4)"))
		require.Equal(t, []string{"exception__thrown LogicException"}, shown(pid, thrown.stop(), "str(arg0)"))
		require.Equal(t, files, shown(pid, compiled.stop(), "str(arg0)"))
		require.Equal(t, []string{"request__startup " + path, "request__shutdown " + path}, shown(pid, requests.stop(), "str(arg0)"))
	}
}

// TestPython: functions, lines, imports, and collections of garbage.
func TestPython(t *testing.T) {
	python := interpreter(t, "/usr/bin/python3", "python3")
	returns := startAttached(t, 1, "trace", python+":python:function__return", "--show", "str(arg0),str(arg1),arg2", "-w", `str(arg1) == "greet_"`)
	lines := startAttached(t, 1, "trace", python+":python:line", "--show", "arg2", "-w", `str(arg1) == "greet_"`)
	imports := startAttached(t, 1, "trace", python+":python:import__find__load__done", "--show", "str(arg0),arg1", "-w", `strings.HasPrefix(str(arg0), "json")`)
	collections := startAttached(t, 2, "count", python+":python:gc__*", "--by", "pid")
	path, pid := script(t, `import gc
def greet_(name):
    greeting = "hello, "
    return greeting + name
for name in ["Ada", "Grace"]:
    greet_(name)
import json.scanner
gc.collect()
`, "/usr/bin/python3", "-S")
	greet := "function__return " + path + " greet_ 4"
	require.Equal(t, []string{greet, greet}, shown(pid, returns.stop(), "str(arg0)", "str(arg1)", "arg2"))
	require.Equal(t, []any{3., 4., 3., 4.}, args(lines.stop(), "arg2"))
	require.Subset(t, shown(pid, imports.stop(), "str(arg0)", "arg1"), []string{"import__find__load__done json 1", "import__find__load__done json.scanner 1"})
	rows := slices.DeleteFunc(collections.stopCounting(), func(c counted) bool { return c.By["pid"] != float64(pid) })
	require.Len(t, rows, 2)
	require.Positive(t, rows[0].Count)
	require.Equal(t, rows[0].Count, rows[1].Count, "each that began has ended")
}

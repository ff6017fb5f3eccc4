//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Script runs a file with a bpftrace program on a process, as "bpftrace -p PID FILE ARGS" does, and returns when its
// probes are attached. See [Bpftrace].
func Script(t testing.TB, p *Process, file string, args ...string) *Tracer {
	t.Helper()
	return Bpftrace(t, read(t, file), append([]string{"-p", strconv.Itoa(p.PID())}, args...)...)
}

// FunctionScript returns the bpftrace program that examples/scripts/trace.sh, whose path is trace, runs for the
// functions of a process, and its options.
func FunctionScript(t testing.TB, p *Process, trace, language, name string) (program string, options []string) {
	t.Helper()
	pid := strconv.Itoa(p.PID())
	out, err := exec.Command("sh", trace, language, name, pid, "-").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", trace, err, out)
	}
	if program = string(out); strings.Contains(program, "usdt:*:") {
		options = []string{"-p", pid}
	}
	return program, options
}

// ProbesFile is the file of a provider's probes that a process has mapped, by way of /proc/PID/root: a path that holds
// in a chroot and from other containers too, while the process lives.
func ProbesFile(t testing.TB, pid int, provider string) string {
	t.Helper()
	maps := read(t, fmt.Sprintf("/proc/%d/maps", pid))
	m := regexp.MustCompile(` (/\S+/` + regexp.QuoteMeta(provider) + `-[0-9a-f]+\.so)\n`).FindStringSubmatch(maps)
	if m == nil {
		t.Fatalf("process %d has no file of %s:\n%s", pid, provider, maps)
	}
	return fmt.Sprintf("/proc/%d/root%s", pid, m[1])
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

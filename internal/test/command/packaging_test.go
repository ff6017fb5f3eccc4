//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
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
)

// readUnit returns the file of systemd's unit, and the values of a setting in it.
func readUnit(t *testing.T, setting string) (text string, values []string) {
	t.Helper()
	content := tracetest.Must(os.ReadFile("../../../packaging/stapsdt.service"))(t)
	m := regexp.MustCompile(`(?m)^` + setting + `=(.*)$`).FindSubmatch(content)
	require.NotNil(t, m)
	return string(content), strings.Fields(string(m[1]))
}

// startExporterWith starts the command as another user with some capabilities, where a directory is
// hidden, as PrivateTmp and others hide some. It counts what a subject of this name fires.
func startExporterWith(t *testing.T, name, hidden string, capabilities []string) *exporter {
	t.Helper()
	set := "-all"
	for _, c := range capabilities {
		set += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	rules := "metrics:\n- {name: test_done_total, probe: 'PROVIDER:request__done', counter: 1, executable: " + name + "}\n"
	return newExporter(t, "subject", rules, func(args ...string) *exec.Cmd {
		return inNamespaces(t, "--mount", "mount -t tmpfs none "+hidden, asUser(t, set, stapsdt(t), args...))
	})
}

// doneAndSites returns the value of the subject's metric, and the number of its sites.
func (e *exporter) doneAndSites() (done, sites float64) {
	e.t.Helper()
	all := e.scrape()
	for _, value := range series(all, "test_done_total") {
		done += value
	}
	return done, all[`stapsdt_attached_sites{metric="test_done_total"}`]
}

// hasLease reports whether others wait to write to a file that the exporter is attached to.
func (e *exporter) hasLease() bool {
	locks := tracetest.Must(os.ReadFile("/proc/locks"))(e.t)
	return regexp.MustCompile(fmt.Sprintf(`LEASE +ACTIVE +READ +%d `, e.PID())).Match(locks)
}

// TestUnitCapabilities: those of systemd's unit suffice, and each of them is needed. They are
// also those of the other ways to start it.
func TestUnitCapabilities(t *testing.T) {
	testenv.Long(t, "it starts the exporter for each capability")
	testenv.NeedsRoot(t)
	testenv.NeedsTool(t, "setpriv", "util-linux")
	_, capabilities := readUnit(t, "AmbientCapabilities")
	_, bounding := readUnit(t, "CapabilityBoundingSet")
	require.Equal(t, capabilities, bounding)
	for _, file := range []string{"kubernetes/daemonset.yaml", "Dockerfile"} {
		content := tracetest.Must(os.ReadFile("../../../packaging/" + file))(t)
		var got []string
		if m := regexp.MustCompile(`add: \[(.*)\]`).FindSubmatch(content); m != nil {
			got = strings.Split(string(m[1]), ", ")
		}
		for _, m := range regexp.MustCompile(`--cap-add (\S+)`).FindAllSubmatch(content, -1) {
			got = append(got, string(m[1]))
		}
		require.Equal(t, strings.ReplaceAll(strings.Join(capabilities, " "), "CAP_", ""), strings.Join(got, " "), file)
	}

	name := fmt.Sprintf("subject-%d", os.Getpid())
	program, images := filepath.Join(t.TempDir(), name), t.TempDir()
	overwrite(t, tracetest.Build(t, "subject"), program)
	subject := func(args ...string) *tracetest.Process {
		p := startIn(t, images, exec.Command(program, args...))
		return p
	}
	// One image is in a hidden file, and the other in memory.
	subjects := []*tracetest.Process{subject(), subject("memfd")}
	e := startExporterWith(t, name, images, capabilities)
	e.waitUntilServing()
	for _, p := range subjects {
		tell(p, "fire 3")
	}
	require.Eventually(t, func() bool { done, _ := e.doneAndSites(); return done == 6 }, testenv.Patience, 20*time.Millisecond, "%s", e.Dump())
	require.True(t, e.hasLease())
	interrupt(t, e)

	subjects[0].Say("quit")
	require.NoError(t, subjects[0].Wait(testenv.Patience))
	for i, without := range capabilities {
		e := startExporterWith(t, name, images, slices.Delete(slices.Clone(capabilities), i, i+1))
		if without == "CAP_BPF" || without == "CAP_PERFMON" {
			require.Error(t, e.Wait(testenv.Patience))
			require.Contains(t, e.Dump(), "loading BPF programs needs "+without)
			continue
		}
		require.Eventually(t, func() bool { return e.Ended() || answering.MatchString(e.Dump()) }, testenv.Patience, 10*time.Millisecond)
		if e.Ended() { // there is no process that it may look at
			require.Contains(t, e.Dump(), "needs "+without)
			continue
		}
		e.waitUntilServing()
		_, sites := e.doneAndSites()
		if without == "CAP_LEASE" {
			require.NotZero(t, sites, e.Dump())
			require.False(t, e.hasLease())
			continue
		}
		require.Zero(t, sites, "without %s\n%s", without, e.Dump())
		interrupt(t, e)
	}
}

// TestUnit: systemd's own checker accepts the unit, and what the exporter asks of the kernel is
// what the unit lets it ask.
func TestUnit(t *testing.T) {
	testenv.Long(t, "it traces the exporter's system calls")
	testenv.NeedsRoot(t)
	analyze := testenv.NeedsTool(t, "systemd-analyze", "systemd")
	strace := testenv.NeedsTool(t, "strace", "strace")
	text, filter := readUnit(t, "SystemCallFilter")
	path := filepath.Join(t.TempDir(), "stapsdt.service")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "/usr/local/bin/stapsdt", stapsdt(t))), 0o600))
	out, err := exec.Command(analyze, "verify", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "stapsdt.service:", "%s", out)

	require.NotContains(t, text, "--listen", "labels are shown to the machine's own programs only, unless its owner decides otherwise")

	allowed := tracetest.Must(testenv.SystemCalls(filter...))(t)
	require.Contains(t, allowed, "openat")
	log := filepath.Join(t.TempDir(), "strace")
	p := startGoSubject(t)
	e := newExporter(t, "subject", "metrics:\n- {name: test_done_total, probe: 'PROVIDER:request__done', counter: 1}\n", func(args ...string) *exec.Cmd {
		return exec.Command(strace, append([]string{"-D", "-f", "-o", log, stapsdt(t)}, args...)...)
	})
	e.waitUntilServing()
	tell(p, "fire 1")
	require.Eventually(t, func() bool { done, _ := e.doneAndSites(); return done > 0 }, testenv.Patience, 20*time.Millisecond)
	e.writeRules("metrics: []\n")
	require.Eventually(t, func() bool { done, _ := e.doneAndSites(); return done == 0 }, testenv.Patience, 20*time.Millisecond)
	interrupt(t, e)
	var lines []byte
	require.Eventually(t, func() bool {
		lines, err = os.ReadFile(log)
		return err == nil && strings.Contains(string(lines), "+++ exited with 0 +++")
	}, testenv.Patience, 20*time.Millisecond, "strace has not written all")
	called := regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllSubmatch(lines, -1)
	require.NotEmpty(t, called)
	for _, call := range called {
		// uprobe, whose answer says which nop is the fastest, is called only where there is no filter.
		if name := string(call[1]); name != "syscall_0x150" {
			require.Contains(t, allowed, name)
		}
	}
}

// TestLoadedImage: the manifest names the image that packaging/Dockerfile builds, which no other
// Dockerfile does. The default of the tag latest is Always, with which a node pulls an image
// that was loaded by hand, and finds none.
func TestLoadedImage(t *testing.T) {
	manifest := tracetest.Must(os.ReadFile("../../../packaging/kubernetes/daemonset.yaml"))(t)
	tags := func(path string) (names []string) {
		text := tracetest.Must(os.ReadFile(path))(t)
		for _, m := range regexp.MustCompile(`-t (\S+) \.`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return names
	}
	exporter := tags("../../../packaging/Dockerfile")
	require.Len(t, exporter, 1)
	require.NotContains(t, tags("../../../Dockerfile"), exporter[0])
	require.Regexp(t, `(?m)^ +image: `+exporter[0]+`:latest\n +imagePullPolicy: IfNotPresent\b`, string(manifest))
	require.Contains(t, tags("../../../docs/fleet.md"), exporter[0])
}

//go:build linux

package table

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var modelLine = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)

// describeMachine returns what the figures are of.
func describeMachine(t testing.TB) string {
	var uts unix.Utsname
	require.NoError(t, unix.Uname(&uts))
	says := func(words ...string) string {
		out, err := exec.Command(words[0], words[1:]...).Output()
		require.NoError(t, err, "%v", words)
		return strings.TrimSpace(string(out))
	}
	cpu := runtime.GOARCH
	info, err := os.ReadFile("/proc/cpuinfo")
	require.NoError(t, err)
	if m := modelLine.FindSubmatch(info); m != nil {
		cpu = string(m[1])
	}
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(*images, &fs))
	place := "on a disk"
	if fs.Type == unix.TMPFS_MAGIC {
		place = "on tmpfs"
	}
	// What follows the version is the builder's.
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	return fmt.Sprintf("Linux %s (sites: %s, clock source: %s), %d × %s, %s, %s, gcc %s, %s, images %s", kernel, site.Chosen().Name, clockSource(t),
		runtime.NumCPU(), cpu, virtualization(string(info)), strings.Replace(runtime.Version(), "go", "Go ", 1), says("gcc", "-dumpfullversion"), says("bpftrace", "--version"), place) +
		fmt.Sprintf(", a trap: %.1f µs", trapPrice(t)/1000)
}

// clockSource returns what the kernel's clock reads. The rows of recorded events say which clock they have.
func clockSource(t testing.TB) string {
	name, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	require.NoError(t, err)
	return strings.TrimSpace(string(name))
}

var hypervisorLine = regexp.MustCompile(`Hypervisor detected: (.*)`)

// virtualization returns the kind of the virtual machine, as the kernel's first messages have it unless later ones have overwritten them.
// systemd-detect-virt takes some kinds for others.
func virtualization(cpuinfo string) string {
	messages, _ := exec.Command("dmesg").Output()
	if m := hypervisorLine.FindSubmatch(messages); m != nil {
		return "a virtual machine (" + string(m[1]) + ")"
	}
	if strings.Contains(cpuinfo, " hypervisor ") {
		return "a virtual machine"
	}
	return "no known virtual machine"
}

// trap is the C program of which bpftrace counts the calls of a nop that traps: one byte of amd64, where the kernel calls no longer ones.
const trap = "trap"

// startTrap starts it, with the tracer.
func (all subjects) startTrap(t testing.TB) *tracetest.Tracer {
	all.start(t, trap, exec.Command(copyProgram(t, "csubject", trap)), "STAPSDT_SITE="+trapSite())
	return tracetest.Bpftrace(t, `usdt:*:bench:* { @ = count(); }`, "-p", strconv.Itoa(all[trap].PID()))
}

func trapSite() string {
	if slices.Contains(siteKinds(), "nop1") {
		return "nop1"
	}
	return site.Chosen().Name
}

// trapPrice returns what a trap takes, in nanoseconds.
func trapPrice(t testing.TB) float64 {
	const n = 5000
	all, r := subjects{}, results{}
	tracer := all.startTrap(t)
	r.measure(t, all, []measurement{{trap, "price", "call", n, 2 * repeats, n, ""}}, 1)
	all.end(t, trap)
	tracer.Stop()
	return r.median("trap price call")
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// finding is what doctor -o json prints.
type finding struct{ Cause, Level, Message, Remedy, See string }

// tick is a probe of the subject that nothing but its name keeps from being traced.
const tick = "subject:tick"

// requireFinding runs doctor, and requires the finding, and the status.
func requireFinding(t *testing.T, status int, cause, level string, cmd *exec.Cmd) finding {
	t.Helper()
	cmd.Args = append(cmd.Args, "-o", "json")
	r := runToEnd(t, cmd)
	require.Equal(t, status, r.status, r.stderr)
	require.Empty(t, r.stderr)
	for _, f := range lines[finding](t, r.stdout) {
		if f.Cause == cause {
			require.Equal(t, level, f.Level)
			return f
		}
	}
	require.Fail(t, "not found", "%s", cause)
	return finding{}
}

// doctorCommand is the command for a process.
func doctorCommand(t *testing.T, args ...string) *exec.Cmd {
	return exec.Command(stapsdt(t), append([]string{"doctor", "-p"}, args...)...)
}

// inNamespaces runs a command after a script, in new namespaces (unshare's flags).
func inNamespaces(t *testing.T, flags, script string, cmd *exec.Cmd) *exec.Cmd {
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	return wrap(cmd, slices.Concat([]string{unshare}, strings.Fields(flags), []string{"sh", "-ec", script + "\n" + `exec "$@"`, "sh"})...)
}

// wrap returns the command that runs another one, with its environment, by the words before it.
func wrap(cmd *exec.Cmd, words ...string) *exec.Cmd {
	wrapped := exec.Command(words[0], slices.Concat(words[1:], cmd.Args)...)
	wrapped.Env = cmd.Env
	return wrapped
}

// startSubjectIn is the program in Go, with its images in a directory.
func startSubjectIn(t *testing.T, directory string, args ...string) *exec.Cmd {
	cmd := exec.Command(tracetest.Build(t, "subject"), args...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+directory)
	return cmd
}

// imageOf returns the file of an image, which is the only one in a directory.
func imageOf(t *testing.T, directory string) string {
	found := tracetest.Must(filepath.Glob(directory + "/*.so"))(t)
	require.Len(t, found, 1)
	return found[0]
}

// TestDoctorHealthy: doctor finds nothing, in both outputs, and names what it has checked if it
// is asked to.
func TestDoctorHealthy(t *testing.T) {
	testenv.NeedsRoot(t)
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	r := runCommand(t, "doctor", "-p", pid(p), tick)
	require.Zero(t, r.status)
	require.True(t, strings.HasPrefix(r.stdout, "Nothing keeps stapsdt from seeing subject:tick of process "+pid(p)+"."), r.stdout)
	require.Empty(t, runCommand(t, "doctor", "-p", pid(p), tick, "-o", "json").stdout)
	require.Equal(t, "The kernel lets subject:tick be traced.", requireFinding(t, 0, "site", "fine", doctorCommand(t, pid(p), tick, "-v")).Message)

	tr := startTrace(t, p, "trace", "-p", pid(p), tick)
	require.Contains(t, requireFinding(t, 0, "traced", "note", doctorCommand(t, pid(p), tick)).Message, "A tracer is attached to subject:tick")
	interrupt(t, tr)
	require.NotContains(t, runCommand(t, "list", "-p", pid(p)).stdout, "traced now", "doctor has left nothing behind")
}

// TestDoctorProcess: the process is not the one that the user has in mind.
func TestDoctorProcess(t *testing.T) {
	testenv.NeedsRoot(t)
	none := "2147483647"
	requireFinding(t, 3, "no-process", "fault", doctorCommand(t, none))
	requireFinding(t, 3, "no-process", "fault", inNamespaces(t, "--pid --fork --mount-proc", "", doctorCommand(t, "4000000")))
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	require.Contains(t, requireFinding(t, 6, "no-process", "fault", inNamespaces(t, "--pid --fork", "", doctorCommand(t, pid(p)))).Remedy, "--mount-proc")

	q := startProcess(t, startSubjectIn(t, t.TempDir()))
	require.Contains(t, requireFinding(t, 0, "siblings", "note", doctorCommand(t, pid(p))).Message, pid(q))

	tell(q, "unload")
	require.Contains(t, requireFinding(t, 3, "not-loaded", "fault", doctorCommand(t, pid(q), tick)).Message, "and then unloaded")

	// A process that starts the one with the probes.
	wrapper := startProcess(t, wrap(startSubjectIn(t, t.TempDir()), "sh", "-c", `"$@"; :`, "sh"))
	remedy := requireFinding(t, 0, "not-loaded", "note", doctorCommand(t, pid(wrapper))).Remedy
	child := childOf(t, wrapper)
	require.Contains(t, remedy, "stapsdt doctor -p "+child+".")
	requireFinding(t, 0, "siblings", "note", doctorCommand(t, child))
	wrapper.Hangup()
}

// TestDoctorFiles: the file that is named is not the one that the process has mapped.
func TestDoctorFiles(t *testing.T) {
	testenv.NeedsRoot(t)
	directory := t.TempDir()
	p := startProcess(t, startSubjectIn(t, directory))
	file := imageOf(t, directory)
	program := tracetest.Build(t, "subject")
	require.Contains(t, requireFinding(t, 3, "file", "fault", doctorCommand(t, pid(p), program+":"+tick)).Message, "The process has mapped "+file)
	requireFinding(t, 3, "file", "fault", doctorCommand(t, pid(p), file+"x:"+tick))
	requireFinding(t, 3, "name", "fault", doctorCommand(t, pid(p), file+":subject:tock"))
	requireFinding(t, 0, "file", "fine", doctorCommand(t, pid(p), file+":"+tick, "-v"))
	require.NoError(t, os.Remove(file))
	startProcess(t, startSubjectIn(t, directory))
	require.Contains(t, requireFinding(t, 6, "file", "fault", doctorCommand(t, pid(p), file+":"+tick)).Message, "before it was replaced")
	requireFinding(t, 0, "site", "fine", doctorCommand(t, pid(p), tick, "-v"))
	memory := startProcess(t, startSubjectIn(t, "", "memfd"))
	requireFinding(t, 0, "site", "fine", doctorCommand(t, pid(memory), tick, "-v"))
}

// TestDoctorNamespaces: what the process and the tracer see differs.
func TestDoctorNamespaces(t *testing.T) {
	testenv.NeedsRoot(t)
	directory := t.TempDir()
	cmd := inNamespaces(t, "--mount --pid --fork", `mount -t tmpfs -o mode=0700 none "$STAPSDT_DIR"`, startSubjectIn(t, directory))
	isolated := childOf(t, startProcess(t, cmd))
	requireFinding(t, 0, "site", "fine", doctorCommand(t, isolated, tick, "-v"))
	files := tracetest.Must(filepath.Glob("/proc/" + isolated + "/root" + directory + "/*.so"))(t)
	require.Len(t, files, 1)
	path := strings.TrimPrefix(files[0], "/proc/"+isolated+"/root")
	remedy := requireFinding(t, 6, "file", "fault", doctorCommand(t, isolated, path+":"+tick)).Remedy
	_, there, _ := strings.Cut(remedy, ", or the file ")
	require.Contains(t, runCommand(t, "list", strings.TrimSuffix(there, ".")).stdout, tick)

	// The same path here is another file.
	startProcess(t, startSubjectIn(t, directory))
	require.Contains(t, requireFinding(t, 6, "file", "fault", doctorCommand(t, isolated, path+":"+tick)).Message, "has not mapped")
}

// TestDoctorOverlay: the process executes a file of which an overlay shows the copy.
func TestDoctorOverlay(t *testing.T) {
	testenv.NeedsOverlay(t)
	// The lower directory is no overlay, which a container's directories are: of an overlay on an
	// overlay the kernel shows a path that leads nowhere.
	layers, merged := t.TempDir(), t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs none %[1]s; mkdir %[1]s/upper %[1]s/work %[1]s/lower; mkdir -m 700 %[1]s/lower/images; echo quit | STAPSDT_DIR=%[1]s/lower/images %[3]s >/dev/null; "+
		"mount -t overlay overlay -o lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work %[2]s", layers, merged, tracetest.Build(t, "subject"))
	p := startProcess(t, inNamespaces(t, "--mount", script, startSubjectIn(t, merged+"/images")))
	f := runCommand(t, "doctor", "-p", pid(p), tick, "-o", "json")
	require.NotContains(t, f.stdout, "overlay")
	runTool(t, exec.Command("nsenter", "-t", pid(p), "-m", "sh", "-c", "touch "+merged+"/images/*.so"))
	requireFinding(t, 6, "overlay", "fault", doctorCommand(t, pid(p), tick))
	tell(p, "unload")
	tell(p, "load")
	require.NotContains(t, runCommand(t, "doctor", "-p", pid(p), tick, "-o", "json").stdout, "overlay", "the remedy")
}

// TestDoctorKernel: the kernel, or what tracers see of it, lacks something.
func TestDoctorKernel(t *testing.T) {
	testenv.NeedsRoot(t)
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	const devices = "mount -t tmpfs none /sys/bus/event_source/devices\n"
	mine := func() *exec.Cmd { return doctorCommand(t, pid(p), tick) }
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")

	// From Linux 6.6 there is a way to attach without the event source, if it may be used.
	under := func(words ...string) *exec.Cmd { // a filter that refuses what tracers do
		return wrap(mine(), append([]string{tracetest.Build(t, "../sandbox/unprivileged"), "0"}, words...)...)
	}
	traced := runToEnd(t, inNamespaces(t, "--mount", devices, exec.Command(stapsdt(t), "trace", "-p", pid(p), "-d", "10ms", tick)))
	if traced.status == 0 && traced.stderr == "" {
		requireFinding(t, 0, "site", "fine", inNamespaces(t, "--mount", devices, doctorCommand(t, pid(p), tick, "-v")))
	} else {
		requireFinding(t, 6, "uprobes", "fault", inNamespaces(t, "--mount", devices, mine()))
	}
	requireFinding(t, 6, "uprobes", "fault", inNamespaces(t, "--mount", devices, under()))

	require.Contains(t, requireFinding(t, 6, "seccomp", "fault", under()).Remedy, "Add bpf and perf_event_open")
	requireFinding(t, 4, "capability", "fault", under(setpriv, "--bounding-set=-all", "--"))

	setarch := testenv.NeedsTool(t, "setarch", "util-linux")
	require.Contains(t, requireFinding(t, 6, "kernel", "fault", wrap(mine(), setarch, "--uname-2.6")).Message, "Linux 2.6.")

	// With a user namespace, root has all capabilities, and none that counts.
	requireFinding(t, 4, "capability", "fault", inNamespaces(t, "--user --map-root-user", "", mine()))
	require.Contains(t, requireFinding(t, 0, "lockdown", "fine", doctorCommand(t, pid(p), tick, "-v")).Message, "lockdown")
}

// TestDoctorArchitecture: this process maps images of other architectures.
func TestDoctorArchitecture(t *testing.T) {
	testenv.NeedsRoot(t)
	maps := func(t *testing.T, architecture string, protection int) {
		a := image.ArchByName(architecture)
		im := tracetest.Must(image.Build(a, &a.Nops[0], image.Spec{Provider: "foreign", Probes: []image.Probe{{Name: "event"}}}, nil))(t)
		path := filepath.Join(t.TempDir(), "foreign.so")
		require.NoError(t, os.WriteFile(path, im.Bytes, 0o600))
		file := tracetest.Must(os.Open(path))(t)
		defer file.Close()
		memory := tracetest.Must(unix.Mmap(int(file.Fd()), 0, len(im.Bytes), protection, unix.MAP_PRIVATE))(t)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	}
	self := strconv.Itoa(os.Getpid())
	foreign, narrow := "arm64", "386"
	if image.Host().Name == foreign {
		foreign, narrow = "amd64", "arm"
	}
	for _, c := range []struct {
		architecture string
		protection   int
		status       int
		cause, level string
		says         string
	}{
		{foreign, unix.PROT_READ, 6, "architecture", "fault", "an emulator"},
		{foreign, unix.PROT_READ | unix.PROT_EXEC, 6, "architecture", "fault", "an emulator"},
		{narrow, unix.PROT_READ | unix.PROT_EXEC, 0, "site", "fine", "lets foreign:event be traced"},
	} {
		t.Run(c.architecture, func(t *testing.T) {
			maps(t, c.architecture, c.protection)
			require.Contains(t, requireFinding(t, c.status, c.cause, c.level, doctorCommand(t, self, "foreign:event", "-v")).Message, c.says)
			require.NotContains(t, runToEnd(t, doctorCommand(t, self, "foreign:other")).stdout, "architecture", "no selected probe is foreign")
		})
	}
}

//go:build linux && (amd64 || arm64)

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
type finding struct{ Cause, Level, Says, Cure, See string }

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
	args := append(strings.Fields(flags), "sh", "-ec", script+"\n"+`exec "$@"`, "sh")
	return exec.Command(unshare, append(args, cmd.Args...)...)
}

// startSubjectIn is the program in Go, with its images in a directory.
func startSubjectIn(t *testing.T, directory string, args ...string) *exec.Cmd {
	cmd := exec.Command(tracetest.Build(t, "subject"), args...)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+directory)
	return cmd
}

func startProcess(t *testing.T, cmd *exec.Cmd) *tracetest.Process {
	p := tracetest.Command(t, cmd)
	p.Expect("ready", testenv.Patience)
	return p
}

// imageOf returns the file of an image, which is the only one in a directory.
func imageOf(t *testing.T, directory string) string {
	found, err := filepath.Glob(directory + "/*.so")
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// TestDoctorHealthy: doctor finds nothing, in both outputs, and names what it has checked if it
// is asked to.
func TestDoctorHealthy(t *testing.T) {
	testenv.NeedsRoot(t)
	tracetest.NeedTracefs(t)
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	r := runCommand(t, "doctor", "-p", pid(p), tick)
	require.Zero(t, r.status)
	require.True(t, strings.HasPrefix(r.stdout, "Nothing keeps a tracer from seeing subject:tick of process "+pid(p)+"."), r.stdout)
	require.Empty(t, runCommand(t, "doctor", "-p", pid(p), tick, "-o", "json").stdout)
	require.Equal(t, "The kernel lets subject:tick be traced.", requireFinding(t, 0, "site", "fine", doctorCommand(t, pid(p), tick, "-v")).Says)

	tr := startTrace(t, p, "trace", "-p", pid(p), tick)
	require.Contains(t, requireFinding(t, 0, "traced", "note", doctorCommand(t, pid(p), tick)).Says, "A tracer is attached to subject:tick")
	tr.Signal(os.Interrupt)
	require.NoError(t, tr.Wait(testenv.Patience))
	require.NotContains(t, runCommand(t, "list", "-p", pid(p)).stdout, "traced now", "doctor has left nothing behind")
}

// TestDoctorUsage: wrong command lines are refused.
func TestDoctorUsage(t *testing.T) {
	for args, says := range map[string]string{
		"doctor":              "no process: give -p PID",
		"doctor -p 0":         "-p takes the PID of a process, and 0 is none",
		"doctor -p 1 a":       `"a" is not [FILE:]PROVIDER:PROBE`,
		"doctor -p 1 a:b c:d": "doctor takes one SPEC",
		"doctor -p 1 -o xml":  "takes text or json",
	} {
		r := runCommand(t, strings.Fields(args)...)
		require.Equal(t, 2, r.status, args)
		require.Contains(t, r.stderr, says)
	}
	r := runCommand(t, "doctor", "-p", "no-such-name")
	require.Equal(t, 3, r.status)
	require.Contains(t, r.stderr, `none is called "no-such-name"`)
}

// TestDoctorProcess: the process is not the one that the user has in mind.
func TestDoctorProcess(t *testing.T) {
	testenv.NeedsRoot(t)
	none := "2147483647"
	requireFinding(t, 3, "no-process", "fault", doctorCommand(t, none))
	requireFinding(t, 3, "pid-namespace", "fault", inNamespaces(t, "--pid --fork --mount-proc", "", doctorCommand(t, "4000000")))
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	require.Contains(t, requireFinding(t, 6, "pid-namespace", "fault", inNamespaces(t, "--pid --fork", "", doctorCommand(t, pid(p)))).Cure, "--mount-proc")

	// pgrep, with quotes and without.
	q := startProcess(t, startSubjectIn(t, t.TempDir()))
	for _, args := range [][]string{{pid(p) + "\n" + pid(q)}, {pid(p), pid(q)}, {pid(p), pid(q), tick}} {
		require.Contains(t, requireFinding(t, 6, "two-processes", "fault", doctorCommand(t, args...)).Says, pid(p)+" and "+pid(q))
	}
	require.Contains(t, requireFinding(t, 0, "two-processes", "note", doctorCommand(t, pid(p))).Says, pid(q))

	// A process that starts the one with the probes.
	wrapped := exec.Command("sh", append([]string{"-c", `"$@"; :`, "sh"}, startSubjectIn(t, "").Args...)...)
	wrapped.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	wrapper := startProcess(t, wrapped)
	cure := requireFinding(t, 3, "not-loaded", "fault", doctorCommand(t, pid(wrapper))).Cure
	child := strings.TrimSuffix(strings.TrimPrefix(cure, "Use -p "), ".")
	requireFinding(t, 0, "two-processes", "note", doctorCommand(t, child))
	number, err := strconv.Atoi(child)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(number, unix.SIGKILL))
}

// TestDoctorNames: the process does not have the probe that was asked for, or has none.
func TestDoctorNames(t *testing.T) {
	testenv.NeedsRoot(t)
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	require.Contains(t, requireFinding(t, 3, "name", "fault", doctorCommand(t, pid(p), "subject:tock")).Says, "The nearest name is subject:tick;")
	tell(p, "unload")
	require.Contains(t, requireFinding(t, 3, "not-loaded", "fault", doctorCommand(t, pid(p), tick)).Says, "and then unloaded")
}

// TestDoctorFiles: the image has no path, or the path leads elsewhere.
func TestDoctorFiles(t *testing.T) {
	testenv.NeedsRoot(t)
	directory := t.TempDir()
	p := startProcess(t, startSubjectIn(t, directory))
	file := imageOf(t, directory)
	program := tracetest.Build(t, "subject")
	require.Contains(t, requireFinding(t, 3, "file", "fault", doctorCommand(t, pid(p), program+":"+tick)).Says, "The process has mapped "+file)
	requireFinding(t, 3, "file", "fault", doctorCommand(t, pid(p), file+"x:"+tick))
	requireFinding(t, 3, "name", "fault", doctorCommand(t, pid(p), file+":subject:tock"))
	requireFinding(t, 0, "file", "fine", doctorCommand(t, pid(p), file+":"+tick, "-v"))
	other := t.TempDir()
	startProcess(t, startSubjectIn(t, other))
	require.Contains(t, requireFinding(t, 6, "file", "fault", doctorCommand(t, pid(p), imageOf(t, other)+":"+tick)).Says, "in different directories")

	require.NoError(t, os.Remove(file))
	gone := requireFinding(t, 7, "deleted", "limit", doctorCommand(t, pid(p), tick))
	requireSeen(t, p, gone.Cure)
	startProcess(t, startSubjectIn(t, directory))
	requireFinding(t, 7, "replaced", "limit", doctorCommand(t, pid(p), tick))
	require.Contains(t, requireFinding(t, 6, "file", "fault", doctorCommand(t, pid(p), file+":"+tick)).Says, "was replaced since")

	memory := startProcess(t, startSubjectIn(t, "", "memfd"))
	cure := requireFinding(t, 7, "memory", "limit", doctorCommand(t, pid(memory), tick)).Cure
	require.Contains(t, cure, "/proc/"+pid(memory)+"/fd/")
	requireSeen(t, memory, cure)
}

// requireSeen requires that a tracer that is attached as the cure says sees the probe.
func requireSeen(t *testing.T, p *tracetest.Process, cure string) {
	t.Helper()
	path, _, _ := strings.Cut(strings.TrimPrefix(cure, "Attach bpftrace to "), ",")
	tr := tracetest.Bpftrace(t, `usdt:`+path+`:`+tick+` { printf("seen\n"); }`)
	tell(p, "storm 1 1")
	tr.WaitLine("seen", testenv.Patience)
	tr.Stop()
}

// TestDoctorUser: the process and its file belong to others.
func TestDoctorUser(t *testing.T) {
	testenv.NeedsRoot(t)
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	as := func(flags string, cmd *exec.Cmd) *exec.Cmd {
		changed := exec.Command(setpriv, append(strings.Fields(flags), cmd.Args...)...)
		changed.Env = cmd.Env
		return changed
	}
	const user = "--reuid=65534 --regid=65534 --clear-groups --"
	mine := t.TempDir()
	p := startProcess(t, startSubjectIn(t, mine))
	for _, path := range []string{mine, stapsdt(t), tracetest.Build(t, "subject")} {
		makeReadable(t, path)
	}
	require.Contains(t, requireFinding(t, 4, "user", "fault", as(user, doctorCommand(t, pid(p), tick))).Says, "belongs to user 0, and this is user 65534")
	requireFinding(t, 4, "capability", "fault", as(user, doctorCommand(t, pid(p), tick)))
	missing := requireFinding(t, 4, "capability", "fault", as("--bounding-set=-all --", doctorCommand(t, pid(p), tick)))
	require.Contains(t, missing.Says, "needs CAP_BPF and CAP_PERFMON. It does not matter that perf_event_paranoid is ")
	requireFinding(t, 7, "capability", "limit", as("--bounding-set=-sys_admin --", doctorCommand(t, pid(p), tick)))

	theirs := filepath.Join(t.TempDir(), "images")
	require.NoError(t, os.Mkdir(theirs, 0o700))
	require.NoError(t, os.Chown(theirs, 65534, 65534))
	makeReadable(t, filepath.Dir(theirs))
	startProcess(t, as(user, startSubjectIn(t, theirs)))
	f := requireFinding(t, 6, "file", "fault", doctorCommand(t, pid(p), imageOf(t, theirs)+":"+tick))
	require.Contains(t, f.Says, "runs as user 0, and the file is one of user 65534")
}

// TestDoctorNamespaces: what the process and the tracer see differs.
func TestDoctorNamespaces(t *testing.T) {
	testenv.NeedsRoot(t)
	directory := t.TempDir()
	cmd := inNamespaces(t, "--mount --pid --fork", `mount -t tmpfs -o mode=0700 none "$STAPSDT_DIR"`, startSubjectIn(t, directory))
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+directory)
	startProcess(t, cmd)
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
	require.NoError(t, err)
	isolated := strings.TrimSpace(string(out))
	require.Contains(t, requireFinding(t, 0, "filter", "note", doctorCommand(t, isolated, tick)).Says, "where its number is 1.")
	f := requireFinding(t, 0, "mount-namespace", "note", doctorCommand(t, isolated, tick))
	require.Contains(t, f.Says, "does not exist here")
	_, path, _ := strings.Cut(f.Cure, "/root")
	path = strings.TrimSuffix(path, ".")
	cure := requireFinding(t, 6, "mount-namespace", "fault", doctorCommand(t, isolated, path+":"+tick)).Cure
	_, there, _ := strings.Cut(cure, ", or to ")
	require.Contains(t, runCommand(t, "list", strings.TrimSuffix(there, ".")).stdout, tick)

	// The same path here is another file.
	startProcess(t, startSubjectIn(t, directory))
	require.Contains(t, requireFinding(t, 0, "mount-namespace", "note", doctorCommand(t, isolated, tick)).Says, "is another file here")
	require.Contains(t, requireFinding(t, 6, "file", "fault", doctorCommand(t, isolated, path+":"+tick)).Says, "own file system")
}

// TestDoctorOverlay: the process executes a file of which an overlay shows the copy.
func TestDoctorOverlay(t *testing.T) {
	testenv.NeedsRoot(t)
	// The lower directory is no overlay, which a container's directories are: of an overlay on an
	// overlay the kernel shows a path that leads nowhere.
	layers, merged := t.TempDir(), t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs none %[1]s; mkdir %[1]s/upper %[1]s/work %[1]s/lower; mkdir -m 700 %[1]s/lower/images; echo quit | STAPSDT_DIR=%[1]s/lower/images %[3]s >/dev/null; "+
		"mount -t overlay overlay -o lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work %[2]s", layers, merged, tracetest.Build(t, "subject"))
	p := startProcess(t, inNamespaces(t, "--mount", script, exec.Command("env", append([]string{"STAPSDT_DIR=" + merged + "/images"}, startSubjectIn(t, "").Args...)...)))
	f := runCommand(t, "doctor", "-p", pid(p), tick, "-o", "json")
	require.NotContains(t, f.stdout, "overlay")
	out, err := exec.Command("nsenter", "-t", pid(p), "-m", "sh", "-c", "touch "+merged+"/images/*.so").CombinedOutput()
	require.NoError(t, err, "%s", out)
	requireFinding(t, 6, "overlay", "fault", doctorCommand(t, pid(p), tick))
	tell(p, "unload")
	tell(p, "load")
	require.NotContains(t, runCommand(t, "doctor", "-p", pid(p), tick, "-o", "json").stdout, "overlay", "the cure")
}

// TestDoctorKernel: the kernel, or what tracers see of it, lacks something.
func TestDoctorKernel(t *testing.T) {
	testenv.NeedsRoot(t)
	tracetest.NeedTracefs(t)
	p := startProcess(t, startSubjectIn(t, t.TempDir()))
	const without, devices = "umount -l /sys/kernel/debug 2>/dev/null || :; umount -l /sys/kernel/tracing 2>/dev/null || :\n", "mount -t tmpfs none /sys/bus/event_source/devices\n"
	mine := func() *exec.Cmd { return doctorCommand(t, pid(p), tick) }
	setpriv := testenv.NeedsTool(t, "setpriv", "util-linux")
	requireFinding(t, 7, "tracefs", "limit", inNamespaces(t, "--mount", without, mine()))

	// From Linux 6.6 there is a way to attach without the event source, if it may be used.
	under := func(words ...string) *exec.Cmd { // a filter that refuses what tracers do
		return exec.Command(tracetest.Build(t, "../sandbox/unprivileged"), append([]string{"0"}, words...)...)
	}
	traced := runToEnd(t, inNamespaces(t, "--mount", devices, exec.Command(stapsdt(t), "trace", "-p", pid(p), "-d", "10ms", tick)))
	if traced.status == 0 && traced.stderr == "" {
		requireFinding(t, 7, "uprobes", "limit", inNamespaces(t, "--mount", devices, mine()))
	} else {
		requireFinding(t, 6, "uprobes", "fault", inNamespaces(t, "--mount", devices, mine()))
	}
	requireFinding(t, 6, "uprobes", "fault", inNamespaces(t, "--mount", devices, under(mine().Args...)))

	f := requireFinding(t, 6, "seccomp", "fault", under(mine().Args...))
	require.Contains(t, f.Says, "bpf (")
	require.Contains(t, f.Says, "perf_event_open (")
	requireFinding(t, 4, "capability", "fault", under(append([]string{setpriv, "--bounding-set=-all", "--"}, mine().Args...)...))

	setarch := testenv.NeedsTool(t, "setarch", "util-linux")
	require.Contains(t, requireFinding(t, 6, "kernel", "fault", exec.Command(setarch, append([]string{"--uname-2.6"}, mine().Args...)...)).Says, "Linux 2.6.")

	// With a user namespace, root has all capabilities, and none that counts.
	requireFinding(t, 4, "capability", "fault", inNamespaces(t, "--user --map-root-user", "", mine()))
	require.Contains(t, requireFinding(t, 0, "perf-event-paranoid", "fine", doctorCommand(t, pid(p), tick, "-v")).Says, "does not matter")
	require.Contains(t, requireFinding(t, 0, "lockdown", "fine", doctorCommand(t, pid(p), tick, "-v")).Says, "lockdown")
}

// TestDoctorSite: doctor reports an instruction that the kernel does not take exactly if the
// command cannot trace it.
func TestDoctorSite(t *testing.T) {
	testenv.NeedsRoot(t)
	cmd := startSubjectIn(t, t.TempDir())
	kind := "nop10"
	if image.Host().NopByName(kind) == nil {
		t.Skip("this architecture has no such instruction")
	}
	cmd.Env = append(cmd.Env, "STAPSDT_SITE="+kind)
	p := startProcess(t, cmd)
	traced := runCommand(t, "trace", "-p", pid(p), "-d", "10ms", tick)
	if !strings.Contains(traced.stderr, "cannot be traced") {
		requireFinding(t, 0, "site", "fine", doctorCommand(t, pid(p), tick, "-v"))
		return
	}
	require.Contains(t, requireFinding(t, 6, "site", "fault", doctorCommand(t, pid(p), tick)).Cure, "STAPSDT_SITE=nop1")
}

// TestDoctorArchitecture: this process maps images of other architectures.
func TestDoctorArchitecture(t *testing.T) {
	testenv.NeedsRoot(t)
	maps := func(architecture string, protection int) {
		a := image.ArchByName(architecture)
		im, err := image.Build(a, &a.Nops[0], image.Spec{Provider: "foreign", Probes: []image.Probe{{Name: "event"}}}, nil)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "foreign.so")
		require.NoError(t, os.WriteFile(path, im.Bytes, 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		memory, err := unix.Mmap(int(file.Fd()), 0, len(im.Bytes), protection, unix.MAP_PRIVATE)
		require.NoError(t, err)
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
		level, says  string
	}{
		{foreign, unix.PROT_READ, 6, "fault", "an emulator"},
		{foreign, unix.PROT_READ | unix.PROT_EXEC, 6, "fault", "an emulator"},
		{narrow, unix.PROT_READ | unix.PROT_EXEC, 7, "limit", "32 bits"},
	} {
		t.Run(c.architecture, func(t *testing.T) {
			maps(c.architecture, c.protection)
			require.Contains(t, requireFinding(t, c.status, "architecture", c.level, doctorCommand(t, self, "foreign:event")).Says, c.says)
		})
	}
}

//go:build linux && (amd64 || arm64)

package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestRecordedBindings: an ordinary user traces the program of each language live, without the kernel, and reads
// what it has recorded after it was killed.
func TestRecordedBindings(t *testing.T) {
	testenv.Long(t, "it starts interpreters, and builds a library for each")
	testenv.NotRaced(t, "it starts programs in other languages, which the detector does not know")
	testenv.NeedsRoot(t)
	bindings := build(t)
	command := filepath.Dir(filepath.Dir(bindings)) + "/stapsdt"
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(command)), 0o755)) // what t.TempDir makes is the user's alone
	data := tracetest.Must(os.ReadFile(tracetest.Stapsdt(t)))(t)
	require.NoError(t, os.WriteFile(command, data, 0o755))
	check := filepath.Dir(command) + "/check" // where the user can read it
	require.NoError(t, os.CopyFS(check, os.DirFS("testdata")))
	for _, l := range table {
		t.Run(l.name, func(t *testing.T) {
			binding := bindings + "/" + l.name
			l.prepare(t, binding)
			l.recorded(t, binding, strings.ReplaceAll(l.command, "CHECK", check), command)
			t.Run("example", func(t *testing.T) { l.recordedExample(t, binding, command) })
		})
	}
}

// user is an ordinary one, who has no directory.
var user = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}

// asUser returns a command that a user starts, with the interpreters of the system.
func asUser(line string, env ...string) *exec.Cmd {
	const path = "PATH=/usr/local/bin:/usr/bin:/bin"
	cmd := exec.Command("/usr/bin/env", append([]string{path}, strings.Fields(line)...)...)
	cmd.Env = append(env, path, "HOME=/")
	cmd.SysProcAttr = user
	return cmd
}

// startRecorded starts a program as the user. It listens, and records in the directory of its images.
func startRecorded(t *testing.T, binding, program string) *subject {
	dir := tracetest.Must(os.MkdirTemp("/dev/shm", "languages"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, 65533, 65533))
	return &subject{tracetest.Command(t, asUser(in(t, binding, program), "LD_LIBRARY_PATH="+binding+"/../../out",
		"STAPSDT_DIR="+dir, "STAPSDT_RECORD="+dir+"/%p.rec,1M", "STAPSDT_SOCKET=1")), t, dir}
}

// kept kills the program, and returns what the user reads of its recording.
func (s *subject) kept(command string) []string {
	s.Signal(syscall.SIGKILL)
	_ = s.Wait(testenv.Patience)
	kept, err := asUser(command + " trace --from " + s.images + "/" + strconv.Itoa(s.PID()) + ".rec").CombinedOutput()
	require.NoError(s.t, err, "%s", kept)
	return strings.Split(strings.TrimSpace(string(kept)), "\n")
}

// recordedExample: what the binding's example does is seen live, and is there after its death, with its first task.
func (l *language) recordedExample(t *testing.T, binding, command string) {
	s := startRecorded(t, binding, l.example)
	s.Expect("process ", testenv.Patience)
	live, err := asUser(command + " trace --via socket -p " + strconv.Itoa(s.PID()) + " tasks:* -n 2").CombinedOutput()
	require.NoError(t, err, "%s", live)
	require.Regexp(t, `(?m) tasks:task__done +task="task \d+" microseconds=\d{5,} result=-\d+$`, string(live))
	require.Regexp(t, ` tasks:task__done +task="task 1" microseconds=\d{5,} result=-1$`, s.kept(command)[1])
}

func (l *language) recorded(t *testing.T, binding, program, command string) {
	s := startRecorded(t, binding, program+" return")
	require.Equal(t, "true", s.Expect("enabled ", testenv.Patience))
	l.refuses(s)
	s.Expect("ready", testenv.Patience)

	pid := strconv.Itoa(s.PID())
	list, err := asUser(command + " list -p " + pid).CombinedOutput()
	require.NoError(t, err, "%s", list)
	require.Contains(t, string(list), "languages:values(text string, byte uint8, tiny int8, number int32, big uint64, low int64)")
	tracer := tracetest.Command(t, asUser(command+" trace --via socket -v -p "+pid+" languages:* -n 52"))
	require.Eventually(t, func() bool { return strings.Contains(tracer.Dump(), "the events come from") }, testenv.Patience, testenv.Patience/1000)
	s.Say("trace")
	s.Expect("fired", testenv.Patience)
	require.NoError(t, tracer.Wait(testenv.Patience))
	requireEvents(t, tracer.Lines())

	requireEvents(t, s.kept(command))
}

// requireEvents requires a heading, and the events that the program of each language fires.
func requireEvents(t *testing.T, lines []string) {
	t.Helper()
	require.Len(t, lines, 53)
	require.Regexp(t, ` languages:values +text="grüße" byte=200 tiny=-100 number=-2000000000 big=9007199254740993 low=-9007199254740993$`, lines[1])
	require.Regexp(t, ` languages:none$`, strings.TrimSpace(lines[2]))
	for i, line := range lines[3:] {
		want := `left="` + strings.Repeat("left ", 10) + strconv.Itoa(i) + `" right="` + strings.Repeat("right ", 8) + strconv.Itoa(i) + `"`
		require.Truef(t, strings.HasSuffix(line, want), "%s", line)
	}
}

//go:build linux && (amd64 || arm64)

package languages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// language is how a program of testdata is run in it. In its commands BINDING is the directory of
// the binding, and CHECK that of the program.
type language struct {
	name string
	// installed is a command that succeeds where the packages are installed.
	installed, packages string
	// build runs in the binding's directory before the programs do.
	build, command string
	// example runs the binding's own example.
	example string
	// exceptions are the classes for a defect of the definition, a wrong number of values, a
	// value of another kind, and one that is out of range.
	failure, count, kind, size string
	// sigterm is whether SIGTERM ends the program as exit does, unless it handles the signal.
	sigterm bool
}

var table = []language{
	{"python", "python3 -c 'import ctypes'", "python3", "",
		"env PYTHONPATH=BINDING python3 CHECK/check.py", "env PYTHONPATH=BINDING python3 BINDING/tasks.py",
		"Error", "TypeError", "TypeError", "OverflowError", false},
	{"perl", "perl -MFFI::Platypus -e 1", "libffi-platypus-perl", "",
		"perl -IBINDING CHECK/check.pl", "perl -IBINDING BINDING/tasks.pl",
		"died", "died", "died", "died", false},
	{"ruby", "ruby -rfiddle -e 1", "ruby", "",
		"ruby -IBINDING CHECK/check.rb", "ruby -IBINDING BINDING/tasks.rb",
		"Stapsdt::Error", "ArgumentError", "TypeError", "RangeError", true},
	{"node", "node --version && npm --version", "nodejs npm", "npm install --silent",
		"env NODE_PATH=BINDING node CHECK/check.js", "env NODE_PATH=BINDING node BINDING/tasks.js",
		"Error", "TypeError", "TypeError", "RangeError", false},
	{"php", "php -r 'exit(class_exists(\"FFI\") ? 0 : 1);'", "php-cli", "",
		"php -d include_path=BINDING CHECK/check.php", "php -d include_path=BINDING BINDING/tasks.php",
		`Stapsdt\Error`, "ArgumentCountError", "TypeError", "ValueError", false},
	{"java", "javac -version", "default-jdk-headless", "make -s && javac -d out -cp out CHECK/Check.java CHECK/Bench.java",
		"java -Djava.library.path=BINDING/out -cp BINDING/out Check", "java -Djava.library.path=BINDING/out -cp BINDING/out Tasks",
		"ProbeException", "IllegalArgumentException", "IllegalArgumentException", "IllegalArgumentException", true},
}

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// subject is a running program of testdata.
type subject struct {
	*tracetest.Process
	t      testing.TB
	images string // the directory of its images
}

// in puts the directories of the binding and of the program into a command.
func in(t testing.TB, binding, command string) string {
	check := tracetest.Must(filepath.Abs("testdata"))(t)
	return strings.NewReplacer("BINDING", binding, "CHECK", check).Replace(command)
}

// start starts the program Check, which ends in a way.
func (l *language) start(t testing.TB, binding, ending string) *subject {
	t.Helper()
	return start(t, binding, l.command+" "+ending)
}

func start(t testing.TB, binding, command string) *subject {
	t.Helper()
	words := strings.Fields(in(t, binding, command))
	cmd := exec.Command(words[0], words[1:]...)
	images := t.TempDir()
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+binding+"/../../out", "STAPSDT_DIR="+images)
	return &subject{tracetest.Command(t, cmd), t, images}
}

// files returns the images of the program.
func (s *subject) files() []string {
	found := tracetest.Must(filepath.Glob(s.images + "/*"))(s.t)
	return found
}

// prepare builds the binding and its programs.
func (l *language) prepare(t testing.TB, binding string) {
	out, err := exec.Command("bash", "-c", l.installed).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	testenv.Needs(t, "the packages "+l.packages, err)
	run(t, binding, in(t, binding, l.build))
}

// run runs a command of the shell to its end, which must be a good one.
func run(t testing.TB, dir, command string) {
	cmd := exec.Command("bash", "-ec", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
}

// refuses expects the exceptions of the calls that are wrong in the same way at any time.
func (l *language) refuses(s *subject) {
	for _, call := range []struct{ name, exception string }{
		{"late", l.failure}, {"count", l.count}, {"text", l.kind}, {"number", l.kind},
		{"large", l.size}, {"small", l.size}, {"fraction", l.kind},
	} {
		require.Equal(s.t, call.exception, s.Expect(call.name+" ", testenv.Patience), call.name)
	}
}

// build copies the bindings and builds the C library, and returns the directory of the bindings.
func build(t testing.TB) (bindings string) {
	var names []string
	for _, l := range table {
		names = append(names, l.name)
	}
	bindings = Copy(t, names...)
	run(t, bindings, "make -s -C ..")
	return bindings
}

// TestBindings: values reach a tracer whole, a wrong value is refused whether it is traced or
// not, is-enabled follows the tracer, and however the program ends, it leaves no file.
func TestBindings(t *testing.T) {
	testenv.Long(t, "it starts interpreters, and builds a library for each")
	testenv.NotRaced(t, "it starts programs in other languages, which the detector does not know")
	tracetest.NeedUprobes(t)
	bindings := build(t)
	for _, l := range table {
		t.Run(l.name, func(t *testing.T) {
			binding := bindings + "/" + l.name
			l.prepare(t, binding)
			endings := []string{"return", "exit", "throw"}
			if l.sigterm {
				endings = append(endings, "SIGTERM")
			}
			for _, ending := range endings {
				t.Run(ending, func(t *testing.T) { l.lives(t, binding, ending) })
			}
		})
	}
}

// program prints what is fired. bpftrace 0.17 reads the first 64 bytes of a string.
const program = `
usdt:*:languages:values { printf("%s %d %d %d %llu %lld\n", str(arg0), arg1, arg2, arg3, arg4, arg5); }
usdt:*:languages:texts { printf("%s %s\n", str(arg0), str(arg1)); }
usdt:*:languages:none { printf("none\n"); }`

// events are what the program of each language fires.
func events() []string {
	all := []string{"grüße 200 -100 -2000000000 9007199254740993 -9007199254740993", "none"}
	for i := range 50 {
		all = append(all, fmt.Sprintf("%s%d %s%d", strings.Repeat("left ", 10), i, strings.Repeat("right ", 8), i))
	}
	return all
}

// lives runs the program through its whole life.
func (l *language) lives(t *testing.T, binding, ending string) {
	s := l.start(t, binding, ending)
	require.Equal(t, l.failure, s.Expect("nameless ", testenv.Patience))
	require.Equal(t, l.failure, s.Expect("many ", testenv.Patience))
	require.Equal(t, "false", s.Expect("enabled ", testenv.Patience))
	l.refuses(s)
	s.Expect("ready", testenv.Patience)
	require.Len(t, s.files(), 1)

	pid := strconv.Itoa(s.PID())
	command := tracetest.Stapsdt(t)
	stapsdt := tracetest.Command(t, exec.Command(command, "trace", "-p", pid, "languages:*", "-n", "3"))
	require.Eventually(t, func() bool {
		list, err := exec.Command(command, "list", "-p", pid).Output()
		return err == nil && strings.Count(string(list), "  # traced now") == 3
	}, testenv.Patience, 10*time.Millisecond)
	tracer := tracetest.Bpftrace(t, program, "-p", pid)
	s.Say("trace")
	require.Equal(t, "true", s.Expect("enabled ", testenv.Patience))
	l.refuses(s)
	s.Expect("fired", testenv.Patience)
	tracer.WaitLines(len(events()), testenv.Patience)
	require.Equal(t, events(), strings.Split(tracer.Stop(), "\n"))
	require.NoError(t, stapsdt.Wait(testenv.Patience))
	const values = ` languages:values +text="grüße" byte=200 tiny=-100 number=-2000000000 big=9007199254740993 low=-9007199254740993$`
	require.Regexp(t, values, stapsdt.Lines()[1])
	require.Regexp(t, ` languages:texts +left="left .* 0" right="right .* 0"$`, stapsdt.Lines()[3])

	if ending == "SIGTERM" {
		s.Signal(syscall.SIGTERM)
	} else {
		s.Say("end")
		require.Equal(t, "false", s.Expect("enabled ", testenv.Patience))
	}
	err := s.Wait(testenv.Patience)
	require.Equal(t, ending == "return", err == nil, "%v", err)
	require.Empty(t, s.files())
}

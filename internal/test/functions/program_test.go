//go:build linux && (amd64 || arm64)

package functions

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

const trace = "../../../examples/scripts/trace.sh"

func TestMain(m *testing.M) {
	tracetest.TracefsMain()
	tracetest.BuildMain(m)
}

// language is how the program in testdata is run in it: with the probes, and bare. WORK is the
// program, BINDINGS the directory of the bindings, and LUA the interpreter in examples.
type language struct {
	name          string
	tools         []string // a command or a file, and the package that has it
	command, bare string
	env           []string
	entry         string // what the line of leaf's entry has
}

var table = []language{
	{"python", []string{"python3=python3"}, "python3 BINDINGS/python/functions.py WORK.py", "python3 WORK.py", nil, "def leaf("},
	{"perl", []string{"perl=perl", "/usr/share/doc/libffi-platypus-perl=libffi-platypus-perl"},
		"perl -IBINDINGS/perl -MFunctions WORK.pl", "perl WORK.pl", nil, "sub leaf "},
	{"ruby", []string{"ruby=ruby"}, "ruby -rBINDINGS/ruby/functions WORK.rb", "ruby WORK.rb", nil, "def leaf("},
	// The interpreter's own probes. Without the second variable, PHP allocates in large pieces.
	{"php", []string{"php=php-cli"}, "php WORK.php", "php WORK.php", []string{"USE_ZEND_DTRACE=1", "USE_ZEND_ALLOC=0"}, "return $n + 1"},
	// Its cost is measured in luaprobe.
	{"lua", nil, "LUA WORK.lua", "", nil, "local function leaf("},
}

// library builds the C library, and returns its directory.
func library(t testing.TB) (dir string) {
	t.Helper()
	testenv.NeedsTool(t, "gcc", "gcc")
	testenv.NeedsTool(t, "make", "make")
	source := tracetest.Must(filepath.Abs("../../../cstapsdt"))(t)
	return tracetest.BuildShell(t, "make -s -C "+source+" OUT=$PWD $PWD/libstapsdt.so")
}

// needs skips a test without the language's tools.
func (l *language) needs(t testing.TB) {
	t.Helper()
	for _, tool := range l.tools {
		name, pkg, _ := strings.Cut(tool, "=")
		if filepath.IsAbs(name) {
			_, err := os.Stat(name)
			testenv.Needs(t, pkg, err)
			continue
		}
		testenv.NeedsTool(t, name, pkg)
	}
}

// program is the running program of a language.
type program struct {
	*tracetest.Process
	language *language
	path     string // its file
}

// start starts the program of a language. Its path is so short that bpftrace shows it whole.
func (l *language) start(t testing.TB, library, command string) *program {
	t.Helper()
	dir := tracetest.Must(os.MkdirTemp("", "w"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	root := tracetest.Must(filepath.Abs("../../.."))(t)
	paths := []string{"BINDINGS", root + "/cstapsdt/bindings", "WORK", dir + "/work"}
	if strings.Contains(command, "LUA") {
		paths = append(paths, "LUA", tracetest.Build(t, root+"/examples/lua"))
	}
	words := strings.Fields(strings.NewReplacer(paths...).Replace(command))
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "STAPSDT_DIR="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	if command == l.command {
		cmd.Env = append(cmd.Env, l.env...)
	}
	return &program{tracetest.Command(t, cmd), l, words[len(words)-1]}
}

// does tells the program something and waits until it is done.
func (p *program) does(command string) {
	p.Say(command)
	name, _, _ := strings.Cut(command, " ")
	p.Expect("done "+name, testenv.Patience)
}

// script returns the bpftrace program that trace.sh runs, and its options.
func (p *program) script(t testing.TB, name string) (text string, options []string) {
	t.Helper()
	return tracetest.FunctionScript(t, p.Process, trace, p.language.name, name)
}

// traced attaches a script, and returns when the functions of the program are seen.
func (p *program) traced(t testing.TB, name string) *tracetest.Tracer {
	t.Helper()
	text, options := p.script(t, name)
	tr := tracetest.Bpftrace(t, text, options...)
	p.does("ready")
	return tr
}

// each runs a test for each language, or for some, all at the same time.
func each(t *testing.T, test func(t *testing.T, p *program), languages ...string) {
	t.Helper()
	run(t, (*testing.T).Parallel, test, languages)
}

// inTurn runs a test that measures times for each language, one after the other.
func inTurn(t *testing.T, test func(t *testing.T, p *program)) {
	t.Helper()
	run(t, func(*testing.T) {}, test, nil)
}

func run(t *testing.T, begin func(*testing.T), test func(t *testing.T, p *program), languages []string) {
	t.Helper()
	testenv.Long(t, "it starts interpreters and tracers")
	testenv.NotRaced(t, "it starts programs in other languages, which the detector does not know")
	tracetest.NeedTracefs(t)
	library := library(t)
	for _, l := range table {
		if len(languages) > 0 && !slices.Contains(languages, l.name) {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			l.needs(t)
			begin(t)
			p := l.start(t, library, l.command)
			p.does("flow") // before anybody looks
			test(t, p)
			p.does("idle") // until the hooks are removed
			p.Hangup()
			require.NoError(t, p.Wait(testenv.Patience))
		})
	}
}

// of adds up what a map has of a function, whatever it belongs to.
func of(entries map[string]int, function string) (sum int) {
	for key, n := range entries {
		if strings.HasSuffix(key, ", "+function) {
			sum += n
		}
	}
	return sum
}

//go:build linux

package tracers

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// example is a language of the examples: a column of the table of scripts. In its commands, which are run in the root of
// the repository, BUILT is the directory of what scripts/lib/tracers.sh has built.
type example struct {
	title string

	functions string // a program whose functions have probes, or ""
	language  string // as trace.sh calls it
	done      string // how the program's answers to commands begin
	ready     string // a command that waits until the functions are traced, or ""
	flow      string // a command
	calls     string // what it calls, as flow.d shows it
	nap       string // a command that calls sleeping, which calls sleeper
	sleeping  string
	sleeper   string // a function that sleeps 20 ms in each call
	sleeps    int    // its calls

	tasks   string // a program that fires task__done, or ""
	program string // another with probes of its own, or ""
}

// work is a program in several languages, which does on command what there are scripts for.
const work = "internal/test/functions/testdata/work"

// ofWork is an example whose functions are those of work.
func ofWork(title, language, functions, tasks string) example {
	return example{title: title, language: language, functions: functions, tasks: tasks, done: "done", ready: "ready",
		flow: "flow", calls: workCalls, nap: "recursion", sleeping: "recursion", sleeper: "down", sleeps: 5}
}

const workCalls = `
-> flow
  -> branch
    -> leaf
    <- leaf
    -> leaf
    <- leaf
  <- branch
  -> failing
  <- failing
  -> leaf
  <- leaf
<- flow
`

var examples = []example{
	ofWork("Python", "python", "/usr/bin/python3 cstapsdt/bindings/python/functions.py "+work+".py", "/usr/bin/python3 cstapsdt/bindings/python/tasks.py"),
	ofWork("Perl", "perl", "perl -Icstapsdt/bindings/perl -MFunctions "+work+".pl", "perl cstapsdt/bindings/perl/tasks.pl"),
	ofWork("Ruby", "ruby", "ruby -r./cstapsdt/bindings/ruby/functions "+work+".rb", "ruby cstapsdt/bindings/ruby/tasks.rb"),
	ofWork("PHP", "php", "php "+work+".php", "php cstapsdt/bindings/php/tasks.php"),
	{title: "Node", tasks: "node cstapsdt/bindings/node/tasks.js"},
	{title: "Java", tasks: "java -Djava.library.path=BUILT/java -cp BUILT/java Tasks"},
	ofWork("Lua", "lua", "BUILT/lua "+work+".lua", ""),
	{title: "WebAssembly", language: "wasm", functions: "BUILT/wasm -trace", done: "= ", flow: "fib 2", calls: `
-> fib
  -> fib
  <- fib
  -> fib
  <- fib
  -> add
  <- add
<- fib
`, nap: "nap 20", sleeping: "nap", sleeper: "wait", sleeps: 2},
	{title: "Go", program: "BUILT/http"},
	{title: "C", program: "BUILT/lines"},
}

func exampleTitles() (list []string) {
	for _, e := range examples {
		list = append(list, e.title)
	}
	return list
}

// running is a program of an example.
type running struct {
	*tracetest.Process
	file string // which its functions are in, as the probes tell it
}

// start starts a program, which removes the file of its probes when its input ends, or when it is asked to end.
func (e *example) start(t *testing.T, command string) *running {
	t.Helper()
	directory := tracetest.Must(filepath.Abs(*programs))(t)
	words := strings.Fields(strings.ReplaceAll(command, "BUILT", directory))
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+directory+"/c", "STAPSDT_DIR="+t.TempDir(), "NODE_PATH="+directory+"/node/node_modules",
		"PYTHONDONTWRITEBYTECODE=1", "USE_ZEND_DTRACE=1")
	p := &running{tracetest.Command(t, cmd), words[len(words)-1]}
	if e.title == "WebAssembly" {
		p.file = "guest"
	}
	if command == e.tasks {
		p.WaitLine("works", testenv.Patience)
	}
	return p
}

// does tells a program something, and waits until it is done.
func (e *example) does(p *running, command string) {
	p.Say(command)
	done := e.done
	if done == "done" {
		name, _, _ := strings.Cut(command, " ")
		done += " " + name
	}
	p.Expect(done, testenv.Patience)
}

// maps reports whether the program has mapped a file whose name begins so.
func (p *running) maps(name string) bool {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/maps")
	return err == nil && strings.Contains(string(maps), "/"+name)
}

func get(t *testing.T, url string, status int) {
	t.Helper()
	answer := tracetest.Must(http.Get(url))(t)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, status, answer.StatusCode)
}

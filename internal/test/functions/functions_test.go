//go:build linux && (amd64 || arm64)

package functions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// patience is for what takes a second at most on an idle machine.
const patience = time.Minute

func TestMain(m *testing.M) { tracetest.BuildMain(m) }

// language is how the program in testdata is run in it: with the probes, and bare. WORK is the
// program.
type language struct {
	name          string
	tools         []string // a command or a file, and the package that has it
	command, bare string
	env           []string
	entry         string // what the line of leaf's entry has
}

var table = []language{
	{"python", []string{"python3=python3"}, "python3 EXAMPLES/python/functions.py WORK.py", "python3 WORK.py", nil, "def leaf("},
	{"perl", []string{"perl=perl", "/usr/share/doc/libffi-platypus-perl=libffi-platypus-perl"},
		"perl -IEXAMPLES/perl -MFunctions WORK.pl", "perl WORK.pl", nil, "sub leaf "},
	{"ruby", []string{"ruby=ruby"}, "ruby -rEXAMPLES/ruby/functions WORK.rb", "ruby WORK.rb", nil, "def leaf("},
	// The interpreter's own probes. Without the second variable, PHP allocates in large pieces.
	{"php", []string{"php=php-cli"}, "php WORK.php", "php WORK.php", []string{"USE_ZEND_DTRACE=1", "USE_ZEND_ALLOC=0"}, "return $n + 1"},
}

// library builds the C library, and returns its directory.
func library(t testing.TB) (dir string) {
	t.Helper()
	testenv.NeedsTool(t, "gcc", "gcc")
	testenv.NeedsTool(t, "make", "make")
	dir = t.TempDir()
	out, err := exec.Command("make", "-s", "-C", "../../../cstapsdt", "OUT="+dir, dir+"/libstapsdt.so").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
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
	dir, err := os.MkdirTemp("", "w")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	examples, err := filepath.Abs("../../../examples")
	require.NoError(t, err)
	words := strings.Fields(strings.NewReplacer("EXAMPLES", examples, "WORK", dir+"/work").Replace(command))
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
	p.Expect("done "+name, patience)
}

// script returns the bpftrace program that trace.sh runs, and its options.
func (p *program) script(t testing.TB, name string) (text string, options []string) {
	t.Helper()
	out, err := exec.Command("sh", "../../../examples/scripts/trace.sh", p.language.name, name, strconv.Itoa(p.PID()), "-").Output()
	require.NoError(t, err)
	if text = string(out); strings.Contains(text, "usdt:*:") {
		options = []string{"-p", strconv.Itoa(p.PID())}
	}
	return text, options
}

// traced attaches a script, and returns when the functions of the program are seen.
func (p *program) traced(t testing.TB, name string) *tracetest.Tracer {
	t.Helper()
	text, options := p.script(t, name)
	tr := tracetest.Bpftrace(t, text, options...)
	p.does("ready")
	return tr
}

// each runs a test for each language.
func each(t *testing.T, test func(t *testing.T, p *program)) {
	testenv.LongOnce(t, "it starts interpreters and tracers")
	testenv.NotRaced(t, "it starts programs in other languages, which the detector does not know")
	tracetest.NeedTracefs(t)
	library := library(t)
	for _, l := range table {
		t.Run(l.name, func(t *testing.T) {
			l.needs(t)
			p := l.start(t, library, l.command)
			p.does("flow") // before anybody looks
			test(t, p)
			p.does("idle") // until the hooks are removed
			p.Hangup()
			require.NoError(t, p.Wait(patience))
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

var event = regexp.MustCompile(`^(\d+) (\d+) (\d+ (?:->|<-) \w+) \((.*):(\d+)\)$`)

// TestFlow: the depth and the order of entries and returns, also by an exception, and their
// places.
func TestFlow(t *testing.T) {
	each(t, flows)
}

func flows(t *testing.T, p *program) {
	tr := p.traced(t, "flow")
	p.does("flow")
	want := []string{"1 -> flow", "2 -> branch", "3 -> leaf", "3 <- leaf", "3 -> leaf", "3 <- leaf", "2 <- branch",
		"2 -> failing", "2 <- failing", "2 -> leaf", "2 <- leaf", "1 <- flow"}
	var got []string
	calls := func() bool {
		got = p.calls(t, tr.Lines())
		return len(got) >= len(want)
	}
	require.Eventually(t, calls, patience, 10*time.Millisecond)
	tr.Stop()
	require.Equal(t, want, got)
}

// TestPythons: the versions of Python that pyenv has here, of which those from 3.12 on have other
// hooks.
func TestPythons(t *testing.T) {
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	found, err := filepath.Glob(home + "/.pyenv/versions/3.*/bin/python3")
	require.NoError(t, err)
	if found = slices.DeleteFunc(found, func(path string) bool { return pythonMinor(path) < 8 }); len(found) == 0 {
		t.Skip("pyenv has no version of Python here")
	}
	testenv.LongOnce(t, "it starts interpreters and tracers")
	testenv.NotRaced(t, "it starts programs in another language, which the detector does not know")
	tracetest.NeedTracefs(t)
	library := library(t)
	for _, path := range found {
		t.Run(fmt.Sprint("3.", pythonMinor(path)), func(t *testing.T) {
			l := table[0]
			l.command = strings.Replace(l.command, "python3", path, 1)
			p := l.start(t, library, l.command)
			p.does("flow")
			flows(t, p)
			p.does("idle")
			flows(t, p) // the hooks are installed again
			p.Hangup()
			require.NoError(t, p.Wait(patience))
		})
	}
}

// pythonMinor returns 12 for the path of a Python 3.12 that pyenv has installed.
func pythonMinor(path string) (minor int) {
	_, version, _ := strings.Cut(path, "/versions/3.")
	_, _ = fmt.Sscanf(version, "%d", &minor)
	return minor
}

// calls returns what flow showed of the functions of the program, but not of ready.
func (p *program) calls(t *testing.T, lines []string) (calls []string) {
	source, err := os.ReadFile(p.path)
	require.NoError(t, err)
	at := 1 + strings.Count(string(source[:bytes.Index(source, []byte(p.language.entry))]), "\n")
	lines = slices.Clone(lines)
	slices.Sort(lines) // all times have as many digits
	for _, line := range lines {
		m := event.FindStringSubmatch(line)
		if m == nil || m[4] != p.path || strings.HasSuffix(m[3], " ready") {
			continue
		}
		require.Equal(t, strconv.Itoa(p.PID()), m[2], line)
		if strings.HasSuffix(m[3], "-> leaf") {
			require.Equal(t, strconv.Itoa(at), m[5], line)
		}
		calls = append(calls, m[3])
	}
	return calls
}

// TestCalls counts with bpftrace and, if the probes have a file, with the command.
func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "calls")
		counted := p.counts(t)
		p.does("flow")
		calls := tracetest.Table(t, tr.Stop(), "calls")
		for function, n := range map[string]int{"flow": 1, "branch": 1, "leaf": 3, "failing": 1, "down": 0} {
			require.Equal(t, n, of(calls, function), "%s: %v", function, calls)
		}
		if counted != nil {
			by := counted()
			require.Equal(t, []int{1, 1, 3, 1}, []int{by["flow"], by["branch"], by["leaf"], by["failing"]}, "%v", by)
		}
	})
}

// counts counts entries by stapsdt, unless they are those of the interpreter. What it returns
// ends that.
func (p *program) counts(t *testing.T) func() map[string]int {
	text, _ := p.script(t, "calls")
	m := regexp.MustCompile(`usdt:(/\S+):(\w+:\w+)\n`).FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	names := regexp.MustCompile(`@calls\[str\(arg\d\), str\((arg\d)\)\]`).FindStringSubmatch(text)
	require.NotNil(t, names, text)
	stapsdt := tracetest.Build(t, "../../../cmd/stapsdt")
	// The interval shows when it has begun.
	cmd := tracetest.Command(t, exec.Command(stapsdt, "count", m[1]+":"+m[2], "--by", "str("+names[1]+")", "-i", "100ms", "-o", "json"))
	require.Eventually(t, func() bool {
		p.does("ready")
		return len(cmd.Lines()) > 0
	}, patience, 10*time.Millisecond)
	return func() map[string]int {
		cmd.Signal(syscall.SIGINT)
		require.NoError(t, cmd.Wait(patience))
		by := map[string]int{}
		for _, line := range cmd.Lines() {
			var row struct {
				By    map[string]string
				Count int
			}
			require.NoError(t, json.Unmarshal([]byte(line), &row), line)
			by[row.By["str("+names[1]+")"]] = row.Count
		}
		return by
	}
}

// TestTime: what a function calls is in its inclusive time alone, and recursion counts once.
func TestTime(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "time")
		p.does("work")
		p.does("recursion")
		out := tr.Stop()
		inclusive, exclusive := tracetest.Table(t, out, "inclusive"), tracetest.Table(t, out, "exclusive")
		// 200 ms in spin and 100 in outer, at least.
		require.GreaterOrEqual(t, of(inclusive, "spin"), 200_000)
		require.GreaterOrEqual(t, of(exclusive, "outer"), 90_000)
		require.InDelta(t, of(inclusive, "work"), of(exclusive, "work")+of(inclusive, "outer"), 10)
		require.Less(t, of(exclusive, "work"), of(inclusive, "work")/4)
		// Five levels of 20 ms each: counted level by level they would be 300.
		require.GreaterOrEqual(t, of(exclusive, "down"), 99_000)
		require.InDelta(t, of(inclusive, "down"), of(exclusive, "down"), 20)
	})
}

// TestMalloc: ten times a mebibyte in one function.
func TestMalloc(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "malloc")
		p.does("memory")
		bytes := tracetest.Table(t, tr.Stop(), "bytes")
		require.InEpsilon(t, 10<<20, of(bytes, "allocate"), 0.05, "%v", bytes)
		require.Less(t, of(bytes, "memory"), 1<<20)
	})
}

// TestFaults: the pages of ten mebibytes, in one function.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := p.traced(t, "faults")
		p.does("memory")
		faults := tracetest.Table(t, tr.Stop(), "faults")
		pages := 10 << 20 / os.Getpagesize()
		require.GreaterOrEqual(t, of(faults, "allocate"), pages*8/10, "%v", faults)
		require.Less(t, of(faults, "memory"), pages/10)
	})
}

// TestLocks: the test has a lock of a file, and the program waits for it.
func TestLocks(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		file, err := os.Create(filepath.Join(t.TempDir(), "lock"))
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
		tr := p.traced(t, "locks")
		p.Say("lock " + file.Name())
		p.Expect("locking", patience)
		require.Eventually(t, func() bool {
			locks, err := os.ReadFile("/proc/locks")
			return err == nil && regexp.MustCompile(fmt.Sprintf(`-> FLOCK .* %d `, p.PID())).Match(locks)
		}, patience, 5*time.Millisecond)
		time.Sleep(200 * time.Millisecond) // what it is to wait at least
		require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_UN))
		p.Expect("done lock", patience)
		out := tr.Stop()
		require.Equal(t, 1, of(tracetest.Table(t, out, "waits"), "critical"), out)
		require.GreaterOrEqual(t, of(tracetest.Table(t, out, "waited"), "critical"), 200_000)
	})
}

// TestTraceScript runs trace.sh as people do, for probes in a file and for those of the interpreter.
func TestTraceScript(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		tr := tracetest.Command(t, exec.Command("sh", "../../../examples/scripts/trace.sh", p.language.name, "flow", strconv.Itoa(p.PID())))
		require.Eventually(t, func() bool {
			p.does("flow")
			return len(p.calls(t, tr.Lines())) > 0
		}, patience, 50*time.Millisecond, "it shows no calls")
		tr.Signal(syscall.SIGINT)
		require.NoError(t, tr.Wait(patience))
	})
}

// TestMutex: a thread waits for another, which is a futex.
func TestMutex(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		if p.language.name != "python" {
			return
		}
		tr := p.traced(t, "locks")
		p.does("mutex") // which is held for half a second
		require.GreaterOrEqual(t, of(tracetest.Table(t, tr.Stop(), "waited"), "acquire"), 300_000)
	})
}

// TestFork: a child that was forked before the tracer came is seen too. PHP forks only with an
// extension.
func TestFork(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		if p.language.name == "php" {
			return
		}
		p.does("fork")
		text, options := p.script(t, "calls")
		pids := regexp.MustCompile(`(?s)/pid == \d+/.*`).ReplaceAllString(text, "{ @by[pid, 0] = count(); }")
		require.NotEqual(t, text, pids)
		tr := tracetest.Bpftrace(t, pids, options...)
		p.does("ready")
		p.Say("wait")
		require.Equal(t, "0", p.Expect("status ", patience))
		p.Expect("done wait", patience)
		by := tracetest.Table(t, tr.Stop(), "by")
		delete(by, fmt.Sprintf("%d, 0", p.PID()))
		require.Len(t, by, 1)
	})
}

// TestSame: a program in Perl, whose hook is in the place of each sub, does the same while it is
// traced.
func TestSame(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		if p.language.name != "perl" {
			return
		}
		p.Say("same")
		bare := p.Expect("no Gone::here gone ", patience)
		p.Expect("done same", patience)
		require.Equal(t, "1 5 3 | 2 | <1 2> | list | scalar | main::called 1 main::same | main::called 1 main::same | 120 | 1,2,3 | 1 2 2 3 | 7 | <> | topic", bare)
		tr := p.traced(t, "calls")
		p.Say("same")
		require.Equal(t, bare, p.Expect("no Gone::here gone ", patience))
		p.Expect("done same", patience)
		require.Equal(t, 5, of(tracetest.Table(t, tr.Stop(), "calls"), "fact"))
	})
}

// TestExec: what a program in Perl executes in its place has none of its timers.
func TestExec(t *testing.T) {
	each(t, func(t *testing.T, p *program) {
		if p.language.name != "perl" {
			return
		}
		p.does("replace")
		p.Hangup()
		require.NoError(t, p.Wait(patience))
		p.Process = p.language.start(t, library(t), p.language.command).Process // to end as the others
	})
}

// inGo starts an example in Go that runs programs in another language.
func inGo(t *testing.T, name string, args ...string) *program {
	testenv.LongOnce(t, "it starts tracers")
	tracetest.NeedTracefs(t)
	t.Setenv("STAPSDT_DIR", t.TempDir())
	cmd := exec.Command(tracetest.Build(t, "../../../examples/"+name), args...)
	return &program{tracetest.Command(t, cmd), &language{name: name}, ""}
}

// TestLua: the scripts keep the functions of goroutines apart, which change threads.
func TestLua(t *testing.T) {
	p := inGo(t, "lua", "../../../examples/lua/testdata/work.lua")
	p.does("flow")
	tr := p.traced(t, "calls")
	p.does("flow")
	p.does("coroutines")
	calls := tracetest.Table(t, tr.Stop(), "calls")
	require.Equal(t, []int{1, 1, 8, 1}, []int{of(calls, "branch"), of(calls, "generate"), of(calls, "leaf"), of(calls, "failing")}, "%v", calls)
	p.does("idle")
	tr = p.traced(t, "time")
	p.does("recursion")
	out := tr.Stop()
	down := of(tracetest.Table(t, out, "exclusive"), "down")
	require.GreaterOrEqual(t, down, 99_000)
	require.InDelta(t, down, of(tracetest.Table(t, out, "inclusive"), "down"), 20)
	p.does("idle")
	tr = p.traced(t, "faults")
	p.does("memory")
	require.GreaterOrEqual(t, of(tracetest.Table(t, tr.Stop(), "faults"), "fill"), 10<<20/os.Getpagesize()*8/10)
	p.does("idle")
	tr = p.traced(t, "locks")
	p.does("lock")
	require.GreaterOrEqual(t, of(tracetest.Table(t, tr.Stop(), "waited"), "critical"), 50_000)
}

// TestWasm: the guest's functions, whose names are those of its file.
func TestWasm(t *testing.T) {
	p := inGo(t, "wasm", "-trace")
	p.WaitLine(" has its probes in ", patience)
	text, options := p.script(t, "time")
	tr := tracetest.Bpftrace(t, text, options...)
	p.Say("nap 40")
	require.Equal(t, "[80]", p.Expect("= ", patience))
	out := tr.Stop()
	inclusive, exclusive := tracetest.Table(t, out, "inclusive"), tracetest.Table(t, out, "exclusive")
	require.GreaterOrEqual(t, of(exclusive, "wait"), 80_000)
	require.LessOrEqual(t, of(exclusive, "nap"), of(inclusive, "nap")-of(inclusive, "wait")+10)
}

// BenchmarkCost measures the processor's time of a call of a function: without the probes, with them, and while
// calls.bt counts.
func BenchmarkCost(b *testing.B) {
	library := library(b)
	for _, l := range table {
		for _, state := range []string{"bare", "idle", "traced"} {
			b.Run(l.name+"/"+state, func(b *testing.B) {
				l.needs(b)
				command := l.command
				if state == "bare" {
					command = l.bare
				}
				p := l.start(b, library, command)
				p.does("flow")
				calls := 1_000_000
				if state == "traced" {
					p.traced(b, "calls")
					calls = 50_000
				}
				least := math.Inf(1) // of five times, because other programs run too
				for range 5 {
					p.Say(fmt.Sprintf("bench %d", calls))
					ns, err := strconv.ParseFloat(p.Expect("bench ", patience), 64)
					require.NoError(b, err)
					least = min(least, ns)
				}
				b.ReportMetric(least, "ns/call")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

//go:build linux && (amd64 || arm64)

package docs_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// request requests the address until the test ends.
func request(t *testing.T, url string) {
	require.Eventually(t, func() bool { // then its probes are loaded
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	}, testenv.Patience, 20*time.Millisecond)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			if r, err := http.Get(url); err == nil {
				r.Body.Close()
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}

// TestReadme builds README's program in a module of its own, and traces it with README's
// commands.
func TestReadme(t *testing.T) {
	needsTracers(t)
	text := readFile(t, root+"README.md")
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(text)[1]
	tracing := regexp.MustCompile("(?s)```\n# (bpftrace -p .*?)\n(.*?)\n```").FindStringSubmatch(text)
	command, output := tracing[1], "^"+regexp.QuoteMeta(tracing[2])+"$"
	action := command[strings.Index(command, "{"):strings.LastIndex(command, "}")]

	d := read(t, repository(t))
	d.dir = t.TempDir()
	address := d.server(t, program)
	d.inModule(t, "myapp", "go build -o myapp .")
	p := d.start(t, "./myapp")
	pid := fmt.Sprint(p.PID())
	request(t, "http://"+address+"/missing")

	buildCommand(t)
	t.Run("our tracer", func(t *testing.T) {
		shown := regexp.MustCompile("(?s)```\n# (stapsdt trace .*?)\n(.*?)\n([^\n]*)\n```").FindStringSubmatch(text)
		got := strings.Split(d.run(t, strings.Replace(shown[1], "-p myapp", "-p "+pid, 1)+" -n 1"), "\n")
		require.Equal(t, shown[2], got[0])
		require.Regexp(t, "^"+pattern(shown[3])+"$", got[1])
		for _, key := range []string{"path", "arg1"} {
			counts := d.start(t, "stapsdt count -p "+pid+" 'myapp:*' --by "+key+" -i 100ms")
			counts.WaitMatch(regexp.MustCompile(`^ +\d+ +\d+  myapp:request__done +"/missing"$`), testenv.Patience)
		}
	})
	t.Run("operations", func(t *testing.T) {
		shown := regexp.MustCompile("(?s)```\n# (stapsdt top .*?)\n[^\n]*\n(.*?)\n[^\n]*\n```").FindStringSubmatch(text)
		got := strings.Split(d.run(t, strings.Replace(shown[1], "-p myapp", "-p "+pid, 1)), "\n")
		got = slices.DeleteFunc(got, func(line string) bool { // a request may be under way when top attaches
			return strings.Contains(line, "began before this")
		})
		require.Equal(t, strings.Fields(shown[2]), strings.Fields(got[1]))
		require.Regexp(t, `^ *[1-9]\d* +[01] +0 .* myapp:request$`, got[2])
		require.Regexp(t, `\n +\S+ +\S+ +100%  myapp:request path="/missing" status=404 elapsed=`, d.run(t, "stapsdt tree -n 1 -p "+pid))
	})
	t.Run("the first other tracer", func(t *testing.T) {
		d.sees(t, output, strings.Replace(command, "$(pgrep -nx myapp)", pid, 1))
	})
	_, file := imageOf(t, p, "myapp")
	d.replace = strings.NewReplacer("PID", pid, "FILE", file, "{ … }", action+"}")
	for name, pattern := range map[string]string{"this process": "bpftrace -p", "every process": "bpftrace -e"} {
		t.Run(name, func(t *testing.T) { d.sees(t, output, d.command(t, pattern)) })
	}
	t.Run("continuous integration", func(t *testing.T) {
		line := ciLine(t)
		// Without probes and without children, of which one may listen.
		other := fmt.Sprint(d.start(t, "sleep 1000").PID())
		for edited, status := range map[string]int{
			d.replace.Replace(line): 0,
			strings.Replace(d.replace.Replace(line), "10s", "1s -w 'status == 1'", 1):              1,
			strings.Replace(d.replace.Replace(line), "request__done", "request__gone", 1):          3,
			"setpriv --bounding-set -all bash -c '" + strings.Replace(line, "PID", other, 1) + "'": 4,
		} {
			cmd := exec.Command("bash", "-c", edited)
			out, err := cmd.CombinedOutput()
			require.Equal(t, status, cmd.ProcessState.ExitCode(), "%s: %v\n%s", edited, err, out)
		}
	})
	t.Run("without root", func(t *testing.T) {
		p.Signal(syscall.SIGKILL) // it has the address
		_ = p.Wait(testenv.Patience)
		recording := filepath.Join(t.TempDir(), "myapp.rec")
		line := regexp.MustCompile(`(?m)^    \$ (STAPSDT_SOCKET=1 STAPSDT_RECORD=)/dev/shm/myapp.rec (\./myapp)$`).FindStringSubmatch(text)
		p := d.start(t, "env "+line[1]+recording+" "+line[2])
		request(t, "http://"+address+"/missing")
		event := fmt.Sprintf(`(?m)^\S+ +%d myapp +myapp:request__done +id=\d+ path="/missing" status=404 elapsed=`, p.PID())
		ci := ciLine(t)
		out, err := exec.Command("setpriv", "--bounding-set=-all", "bash", "-c", strings.Replace(ci, "PID", fmt.Sprint(p.PID()), 1)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, source := range []string{"--via socket -p " + fmt.Sprint(p.PID()), "--from " + recording} {
			require.Regexp(t, event, d.run(t, "stapsdt trace "+source+" myapp:request__done -n 1"))
		}
		p.Signal(syscall.SIGKILL)
		_ = p.Wait(testenv.Patience)
		screen := d.run(t, "stapsdt postmortem "+recording)
		require.Contains(t, screen, "\nnot closed: the process was killed, crashed, or ended without Close\n")
		require.Regexp(t, `(?m)^ +[0-9.]+ +\S+ +0 .* myapp:request$`, screen)
	})
}

// ciLine returns the line for continuous integration.
func ciLine(t *testing.T) string {
	return regexp.MustCompile(`(?m)^    (events=.*)$`).FindStringSubmatch(readFile(t, root+"docs/command.md"))[1]
}

// pattern matches a line of the command's output in which times and PIDs are others.
func pattern(line string) string {
	line = regexp.QuoteMeta(line)
	line = regexp.MustCompile(`^\d\d:\d\d:\d\d\\\.\d{6} +\d+`).ReplaceAllString(line, `\d\d:\d\d:\d\d\.\d{6} +\d+`)
	line = regexp.MustCompile(`\bid=\d+`).ReplaceAllString(line, `id=\d+`)
	return regexp.MustCompile(`elapsed=\S+`).ReplaceAllString(line, `elapsed=\S+`)
}

// TestInstall: the installation that README names.
func TestInstall(t *testing.T) {
	needs(t, "make", "gcc", "pkg-config")
	d := read(t, repository(t))
	d.dir = repository(t)
	d.run(t, "make -C cstapsdt install DESTDIR="+t.TempDir())
}

// TestGuideTesting runs the guide's tests, and one that fails as the guide says.
func TestGuideTesting(t *testing.T) {
	testenv.Long(t, "it builds programs")
	testenv.NeedsTool(t, "go", "golang")
	g := readGuide(t, "testing.md")
	g.write(t, "shop.go", g.code(t, "Package shop sells things."))
	first := g.code(t, "func TestOrder")
	g.write(t, "order_test.go", first)
	for name, test := range map[string]string{
		"elapsed_test.go": "func TestElapsed", "background_test.go": "func TestBackground",
		"bubble_test.go": "func TestBubble", "job_test.go": "func TestJob", "bench_test.go": "func BenchmarkOrderObserved",
	} {
		g.write(t, name, g.code(t, test))
	}
	g.inModule(t, "example.com/shop", "go vet .")
	out := g.run(t, "go test -v -bench . -benchtime 10x .")
	for _, name := range []string{"TestOrder", "TestElapsed", "TestBackground", "TestBubble", "TestJob"} {
		require.Contains(t, out, "--- PASS: "+name+" ")
	}
	require.Contains(t, out, "BenchmarkOrderObserved")

	g.write(t, "order_test.go", strings.Replace(first, `orderEnd.Fire("tea", 0, "")`, `orderEnd.Fire("tea", 0, "sold out")`, 1))
	out = g.run(t, "go test -run TestOrder . || true")
	elapsed := regexp.MustCompile(`elapsed=[1-9][\d.]*ms`)
	squeeze := func(s string) string {
		return strings.Join(strings.Fields(elapsed.ReplaceAllString(s, "elapsed=TIME")), " ")
	}
	require.Contains(t, squeeze(out), squeeze(g.code(t, "the events of shop differ")))
}

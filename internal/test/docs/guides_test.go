//go:build linux && (amd64 || arm64)

package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// imageOf finds an image in a process's memory map: its range and its path.
func imageOf(t *testing.T, p *tracetest.Process, provider string) (addresses, path string) {
	t.Helper()
	maps := readFile(t, fmt.Sprintf("/proc/%d/maps", p.PID()))
	m := regexp.MustCompile(`(?m)^(\S+) r-xp .* (/\S*\b` + provider + `-[0-9a-f]+\.so)`).FindStringSubmatch(maps)
	require.NotNil(t, m, maps)
	return m[1], m[2]
}

// hello starts examples/hello, and puts its values in the place of the guide's.
func (g *guide) hello(t *testing.T, env ...string) *tracetest.Process {
	t.Helper()
	program := t.TempDir() + "/hello"
	example(t, "hello").run(t, "go build -o "+program+" .")
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), "STAPSDT_DIR="+t.TempDir()+"/stapsdt-0", "HOME="+t.TempDir()), env...)
	p := tracetest.Command(t, cmd)
	p.WaitLine("bpftrace -e", testenv.Patience)
	addresses, path := imageOf(t, p, "hello")
	const action = `{ printf("%s %d\n", str(arg0), arg1); }`
	g.replace = strings.NewReplacer("/proc/PID/rootFILE", fmt.Sprintf("/proc/%d/root%s", p.PID(), path), "PID", strconv.Itoa(p.PID()),
		"$FILE", path, "FILE", path, "7fdb65236000-7fdb65237000", addresses, "-e …", "-e 'usdt:*:hello:greeting "+action+"'", "{ … }", action)
	return p
}

// needsAMD64 skips a test of a guide that shows the registers of amd64.
func needsAMD64(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the guide shows the registers of amd64")
	}
}

func TestGuideNothingShows(t *testing.T) {
	needs(t)
	g := readGuide(t, "nothing-shows.md")
	g.dir = repository(t)
	t.Run("go run", func(t *testing.T) {
		t.Setenv("CGO_ENABLED", "0") // the guide shows how the image was built
		g.follow(t, "STAPSDT_DEBUG=1 go run")
	})
	g.hello(t)
	g.follow(t, "grep stapsdt /proc/PID/maps")
	g.follow(t, "bpftrace -l -p PID 'usdt:*:hello:*'")
	g.follow(t, "/proc/PID/rootFILE:")
	require.NoError(t, os.Remove(g.replace.Replace("FILE")))
	g.follow(t, "grep hello- /proc/PID/maps")
	g.follow(t, "map_files/7fdb65236000-7fdb65237000")
}

// ownHome gives the test a home directory, in which perf has its cache. Go keeps its own.
func ownHome(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
		value, err := exec.Command("go", "env", name).Output()
		require.NoError(t, err)
		t.Setenv(name, strings.TrimSpace(string(value)))
	}
	t.Setenv("HOME", t.TempDir())
}

// requests builds the program of goroutines.md, which fires when it is told to.
func (d *document) requests(t *testing.T, program string) *tracetest.Process {
	build := &document{dir: t.TempDir()}
	build.write(t, "main.go", program)
	build.inModule(t, "requests", "go build -o requests .")
	p := build.launch(t, "requests")
	p.WaitLine("press Enter", testenv.Patience)
	return p
}

func TestGuideGoroutines(t *testing.T) {
	needs(t, "gdb")
	needsAMD64(t)
	g := readGuide(t, "goroutines.md")
	code := g.code(t, "package main")
	p := g.requests(t, code)
	g.write(t, "pairs.bt", g.code(t, "@by_goid[*(uint64*)"))
	b := g.find(t, "pairs.bt").consoles()[0]
	tr := g.trace(t, strings.Replace(b.command, "PID", strconv.Itoa(p.PID()), 1))
	p.Say("")
	require.NoError(t, p.Wait(testenv.Patience))
	tr.interrupt()
	lines := tr.finish()
	wrong := 0
	for _, line := range b.output {
		if name, isThread := strings.CutPrefix(line, "@thread["); isThread {
			if m := regexp.MustCompile(`(?m)^@thread\[(?:wrong|lost)\]: (\d+)$`).FindStringSubmatch(line); m != nil {
				wrong++ // and the number is another each time
			}
			require.NotEmpty(t, name)
			continue
		}
		require.Contains(t, lines, line)
	}
	require.NotZero(t, wrong)
	require.Regexp(t, `@thread\[(wrong|lost)\]: \d+`, strings.Join(lines, "\n"), "the thread was always right")

	g.latency(t, code)

	program := t.TempDir() + "/hello"
	example(t, "hello").run(t, "go build -o "+program+" .")
	g.replace = strings.NewReplacer("PROGRAM", program)
	g.follow(t, "gdb -batch")
}

// latency measures the requests with the command, by each key that the page names.
func (g *guide) latency(t *testing.T, code string) {
	c := g.find(t, "stapsdt latency").consoles()[0]
	buildCommand(t)
	for key, right := range map[string]bool{"": true, " --key goroutine": true, " --key thread": false} {
		p := g.requests(t, code)
		command := strings.Replace(c.command, "PID", strconv.Itoa(p.PID()), 1) + key
		tr := startGroup(t, g.dir, "exec "+command)
		require.Eventually(t, func() bool {
			out, err := exec.Command("stapsdt", "list", "-p", strconv.Itoa(p.PID())).Output()
			return err == nil && strings.Count(string(out), "traced now") == 2
		}, testenv.Patience, 20*time.Millisecond)
		p.Say("")
		require.NoError(t, p.Wait(testenv.Patience))
		require.NoError(t, tr.Wait(testenv.Patience)) // it ends with the process
		lines := tr.Lines()
		require.Equal(t, c.output[0], lines[0])
		counts, _, _ := strings.Cut(c.output[len(c.output)-1], "since ")
		last := regexp.MustCompile("^" + regexp.QuoteMeta(counts) + `since \d\d:\d\d:\d\d$`).MatchString(lines[len(lines)-1])
		paired := last && strings.Contains(strings.Join(lines, "\n"), "\ncount 1000  average ")
		require.Equal(t, right, paired, "%s\n%s", command, strings.Join(lines, "\n"))
	}
}

// TestGuideLibraries builds the guide's library, its program and its test.
func TestGuideLibraries(t *testing.T) {
	needs(t)
	g := readGuide(t, "libraries.md")
	g.write(t, "cache/internal/probe/probe.go", g.code(t, "package probe"))
	g.write(t, "cache/evict/evict.go", g.code(t, "package evict"))
	g.write(t, "cache/cache.go", g.code(t, "package cache")+"\nfunc get(string) (string, bool) { return \"\", false }\n")
	g.write(t, "main.go", `package main

import (
	"fmt"
	"log"
	"time"

	"example.com/app/cache/evict"

	"github.com/go-stapsdt/stapsdt"
)

`+strings.Replace(g.code(t, "func main()"), "…", `fmt.Println("ready")
	for range time.Tick(100 * time.Millisecond) {
		evict.Drop("/old", 4096)
	}`, 1))
	g.write(t, "cache/cache_test.go", "package cache\n\nimport (\n\t\"testing\"\n\n\t\"github.com/go-stapsdt/stapsdt\"\n)\n\n"+g.code(t, "func TestProbes"))
	g.inModule(t, "example.com/app", "go vet ./...; go test ./...; go build -o app .")
	g.write(t, "main.go", strings.Replace(readFile(t, g.dir+"/main.go"), `"example.com/app/cache/evict"`, `"example.com/app/cache"
	"example.com/app/cache/evict"`, 1)+"\nvar _ = cache.Get\n")
	g.run(t, "go build -o app .")
	p := g.launch(t, "app")
	p.WaitLine("ready", testenv.Patience)
	g.replace = strings.NewReplacer("PID", strconv.Itoa(p.PID()))
	g.follow(t, "usdt:*:cache:entry__evicted")
}

// TestGuideDebugprobe builds the guide's program, and asks it as a reader does.
func TestGuideDebugprobe(t *testing.T) {
	needs(t, "curl")
	g := readGuide(t, "debugprobe.md")
	address := g.server(t, g.code(t, "package main"))
	g.inModule(t, "app", "go vet .; go build -o app .")
	g.launch(t, "app")
	g.replace = strings.NewReplacer("localhost:8080", address)
	g.run(t, "curl -sSf -o page --retry 50 --retry-delay 1 --retry-connrefused http://"+address+"/debug/probes/; grep -q page.js page")
	for _, text := range []string{"filter=sttus", "filter=status", "histogram.json", "probes.json"} {
		g.follow(t, text)
	}
}

// TestGuideInstrumentation builds the guide's program, and traces its requests as the guide says.
func TestGuideInstrumentation(t *testing.T) {
	needs(t, "curl")
	g := readGuide(t, "instrumentation.md")
	address := g.server(t, g.code(t, "package main"))
	g.inModule(t, "shop", "go vet .; go build -o shop .")
	p := g.launch(t, "shop")
	g.run(t, "curl -sS -o /dev/null --retry 50 --retry-delay 1 --retry-connrefused http://"+address+"/none")
	command := g.find(t, "bpftrace -p PID").lines[0]
	_, program, found := strings.Cut(command, " -e ")
	require.True(t, found, command)
	tr := tracetest.Bpftrace(t, strings.Trim(program, "'"), "-p", strconv.Itoa(p.PID()))
	g.run(t, "curl -sS -o /dev/null http://"+address+"/none")
	require.Contains(t, tr.Stop(), "@us[]:", "no pattern matched")
}

// TestGuideNames builds the guide's program, and traces it by the names of the arguments.
func TestGuideNames(t *testing.T) {
	needs(t, "perf=linux-perf", "gdb", "gcc")
	needsAMD64(t)
	g := readGuide(t, "names.md")
	g.write(t, "main.go", g.code(t, "package main"))
	g.inModule(t, "shop", "go build -o shop .")
	p := g.launch(t, "shop")
	p.WaitMatch(regexp.MustCompile(`/shop-`), testenv.Patience)
	addresses, path := imageOf(t, p, "shop")
	base, _, _ := strings.Cut(addresses, "-")
	g.replace = strings.NewReplacer("FILE", path, "PID", strconv.Itoa(p.PID()), "BASE", base)
	t.Run("C", func(t *testing.T) {
		source := "#include <libstapsdt.h>\n#include <stdio.h>\nvoid define(SDTProvider_t *provider);\nvoid define(SDTProvider_t *provider)\n{\n" + g.code(t, "SDTArgument_t") + "}\n"
		g.write(t, "named.c", source)
		g.run(t, "gcc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I "+repository(t)+"/cstapsdt named.c")
	})
	t.Run("bpftrace", func(t *testing.T) {
		g.follow(t, "bpftrace -lv")
		g.follow(t, "args->conn")
	})
	t.Run("perf", func(t *testing.T) {
		ownHome(t)
		remove := func() { _ = exec.Command("perf", "probe", "-d", "probe_shop:*").Run() }
		remove() // of a test that was killed
		t.Cleanup(remove)
		g.follow(t, "perf probe -x FILE -V")
		g.follow(t, "perf probe -d")
	})
	t.Run("gdb", func(t *testing.T) { g.follow(t, "add-symbol-file") })
}

// TestGuideOpenTelemetry builds the guide's program, whose modules are those of the tests, and
// traces its spans, none of which it exports.
func TestGuideOpenTelemetry(t *testing.T) {
	needs(t, "curl")
	g := readGuide(t, "opentelemetry.md")
	address := g.server(t, g.code(t, "package main"))
	g.run(t, "go build -C "+repository(t)+"/internal/test -o $PWD/shop $PWD/main.go")
	p := g.launch(t, "shop")
	get := "curl -sS -o /dev/null --retry 50 --retry-delay 1 --retry-connrefused http://" + address + "/items"
	g.run(t, get)
	commands := g.find(t, "bpftrace -p PID").consoles()
	require.Len(t, commands, 2)
	for i, want := range []string{`(?m)^@us\[list\]:`, `(?m)^[0-9a-f]{16} in [0-9a-f]{16}: list: no such item$`} {
		command := commands[i].command
		_, program, found := strings.Cut(command, " -e ")
		require.True(t, found, command)
		out := ""
		// bpftrace reads a text as empty if its page is not resident, and then the filter is false.
		for tries := 0; tries < 3 && !regexp.MustCompile(want).MatchString(out); tries++ {
			tr := tracetest.Bpftrace(t, strings.Trim(program, "'"), "-p", strconv.Itoa(p.PID()))
			g.run(t, get)
			out = tr.Stop()
		}
		require.Regexp(t, want, out)
	}
}

//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestGuideTutorial builds the tutorial's program and the command, and asks the program as the tutorial does.
func TestGuideTutorial(t *testing.T) {
	needsTracers(t)
	g := readGuide(t, "tutorial.md")
	address := g.server(t, g.code(t, "package main"))
	g.inModule(t, "app", "go vet .; go build -o app .")
	buildCommand(t)
	p := g.start(t, "env STAPSDT_DIR="+t.TempDir()+"/stapsdt-0 ./app")
	pid := strconv.Itoa(p.PID())
	g.run(t, "for i in $(seq 600); do stapsdt list -p "+pid+" && exit; sleep 0.1; done; exit 1")
	g.replace = strings.NewReplacer("PID COMM", "PID COMM", "PID", pid, "localhost:8081", address)
	g.follow(t, "$ stapsdt list -p PID")   // before the others, because list shows what is traced
	t.Run("commands", func(t *testing.T) { // at the same time, because many of them take two seconds
		for _, text := range []string{"request__done -n 3", "-n 2", "-o json -w", "--by path,status", "--by status -d 2s", "-o pprof",
			"trace http://", "script -p PID", "doctor -p PID"} {
			b := g.find(t, text)
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				g.followBlock(t, b)
			})
		}
		for text, rest := range map[string]string{
			"stapsdt hist -p PID":    "",
			"stapsdt latency -p PID": `(?m)^\d+ starts? without an end \(\d+ still open\); \d+ ends? without a start; since [\d:]+$`,
		} {
			c := g.find(t, text).consoles()[0]
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				g.distribution(t, c, rest)
			})
		}
	})
}

// TestTutorialLines: the frames of the tutorial's stacks name the lines of its program.
func TestTutorialLines(t *testing.T) {
	text := readFile(t, root+"docs/tutorial.md")
	_, program, _ := strings.Cut(text, "```go\n")
	lines := strings.Split(program, "\n")
	frames := regexp.MustCompile(`(main\.\S+) \(main\.go:(\d+)\)`).FindAllStringSubmatch(text, -1)
	require.Len(t, frames, 4)
	for _, frame := range frames {
		n, err := strconv.Atoi(frame[2])
		require.NoError(t, err)
		require.Contains(t, lines[n-1], map[string]string{"main.handle": "done.Fire(", "main.main.func1.gowrap1": "go handle("}[frame[1]])
	}
}

var quantiles = regexp.MustCompile(`(?m)^count \d+  average [\d.]+ms  p50 [\d.]+ms  p90 [\d.]+ms  p99 [\d.]+ms  p999 [\d.]+ms$`)

// distribution runs a command that prints a histogram, whose rows must be shown. The quantiles and what is still open
// differ from run to run: what follows the quantiles matches the pattern.
func (g *guide) distribution(t *testing.T, c console, rest string) {
	t.Helper()
	printed := g.run(t, g.replace.Replace(c.command))
	for _, lines := range []string{printed, strings.Join(c.output, "\n")} {
		require.Regexp(t, quantiles, lines)
		require.Regexp(t, rest, lines)
	}
	c.output = c.output[:slices.IndexFunc(c.output, quantiles.MatchString)]
	require.Empty(t, c.missing(strings.Split(printed, "\n"), shape), "%s\nhas not printed this\n%s", c.command, printed)
}

// TestGuideDoctor follows the sections of command.md on doctor and clean, and the first
// paragraph of nothing-shows.md.
func TestGuideDoctor(t *testing.T) {
	needs(t)
	buildCommand(t)
	g := readGuide(t, "command.md")
	g.blocks = slices.DeleteFunc(g.blocks, func(b *block) bool {
		return !slices.ContainsFunc(b.lines, func(line string) bool {
			return strings.HasPrefix(line, "$ stapsdt doctor") || strings.HasPrefix(line, "$ stapsdt clean")
		})
	})
	g.hello(t)
	file := g.replace.Replace("FILE")
	library := filepath.Join(filepath.Dir(file), "library-aB3dEf.so")
	g.run(t, "cp "+file+" "+library)
	clean := &guide{document: g.document, blocks: g.blocks}
	clean.replace = strings.NewReplacer("DIRECTORY", filepath.Dir(file), "/tmp/stapsdt-0/library-aB3dEf.so", library)
	clean.follow(t, "stapsdt clean")
	require.NoFileExists(t, library)

	top := &guide{document: g.document, blocks: readGuide(t, "nothing-shows.md").blocks}
	top.follow(t, "stapsdt doctor")
	g.follow(t, "stapsdt doctor -p PID hello:greting") // and the other command of its block
}

// TestGuideWithoutRoot follows the guide as a user without any capability, to whom the kernel refuses bpf and
// perf_event_open.
func TestGuideWithoutRoot(t *testing.T) {
	testenv.NeedsRoot(t)
	needs(t)
	g := readGuide(t, "without-root.md")
	g.write(t, "main.go", g.code(t, "probeenv.Load()"))
	blocks := g.find(t, "./shop").consoles()
	require.Len(t, blocks, 2)
	g.inModule(t, "shop", blocks[0].command)
	require.Equal(t, "STAPSDT_SOCKET=1 ./shop", blocks[1].command)
	g.run(t, "go build -C "+repository(t)+"/cmd/stapsdt -o $PWD/stapsdt .")
	for dir := g.dir; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	g.run(t, "mkdir tmp && chown 4242 tmp && chmod 755 shop stapsdt")
	g.run(t, "go build -C "+repository(t)+"/internal/test -o $PWD/unprivileged ./sandbox/unprivileged")
	as := "env -u STAPSDT_DIR -u XDG_RUNTIME_DIR TMPDIR=" + g.dir + "/tmp PATH=" + g.dir + ":$PATH " + g.dir + "/unprivileged 4242 /bin/bash -c "

	p := g.start(t, as+"'exec env "+blocks[1].command+"'")
	pid := p.WaitMatch(regexp.MustCompile(`process (\d+)`), testenv.Patience)[1]
	g.replace = strings.NewReplacer("PID", pid)
	follow := func(c console) {
		t.Helper()
		out := g.run(t, as+"'"+strings.ReplaceAll(g.replace.Replace(c.command), "'", `'\''`)+" 2>&1 || true'")
		requirePrinted(t, c, out)
	}
	for _, first := range []string{"stapsdt list -p PID", "stapsdt stack -p PID"} {
		for _, c := range g.find(t, first).consoles() {
			follow(c)
		}
	}
	t.Run("gVisor", func(t *testing.T) { watchInGVisor(t, g, blocks[1].command) })
}

// watchInGVisor watches the program from its own sandbox. gVisor has no BPF, and lists no sockets.
func watchInGVisor(t *testing.T, g *guide, start string) {
	testenv.Long(t, "gVisor starts, with a kernel of its own")
	runsc := testenv.NeedsTool(t, "runsc", "runsc") + " --network=none --ignore-cgroups do "
	_, err := exec.Command("sh", "-c", runsc+"true").Output()
	testenv.Needs(t, "gVisor, which runs in no other sandbox", err)
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "inside"), []byte("cd "+g.dir+"\n"+start+` &
for i in $(seq 600); do
	! ./stapsdt list -p $! | grep -x "process $!, by its socket" || break
	sleep 0.1
done
./stapsdt trace -p $! 'shop:*' -n 1 -d 1m -o json
./stapsdt count -a 'shop:*' -d 2s -o json
./stapsdt stack -p $! shop:request__done -n 1
kill $!
`), 0o644))
	out := g.run(t, "env STAPSDT_DIR="+g.dir+"/tmp/inside "+runsc+
		"setpriv --reuid 4242 --regid 4242 --clear-groups --no-new-privs bash "+g.dir+"/inside 2>&1 | cat") // to a file, runsc would not append
	require.Contains(t, out, `"probe":"request__done"`)
	require.Regexp(t, `"count":[1-9]`, out)
	require.Contains(t, out, "only the kernel can do this (stack)")
}

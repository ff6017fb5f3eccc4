//go:build linux && (amd64 || arm64)

package docs_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// requirePrinted requires that a console's command has printed the lines that the guide shows, in
// their order, and nothing else.
func requirePrinted(t *testing.T, c console, printed string) {
	t.Helper()
	lines := nonempty(strings.Split(printed, "\n"))
	require.Len(t, lines, len(c.output), printed)
	for i, line := range c.output {
		require.Regexp(t, expected(line, shape), shape(lines[i]), "%s\n%s", c.command, printed)
	}
}

// TestGuideRecording kills the shop in the middle of a request, and asks its recording what the guide
// asks.
func TestGuideRecording(t *testing.T) {
	needs(t, "curl")
	g := readGuide(t, "recording.md")
	t.Run("program", func(t *testing.T) {
		d := &document{dir: t.TempDir()}
		d.write(t, "main.go", "package main\n\nimport (\n\t\"github.com/go-stapsdt/stapsdt\"\n\t\"github.com/go-stapsdt/stapsdt/proberec\"\n)\n\n"+
			"var probes = stapsdt.NewProvider(\"shop\")\n\nfunc main() { _ = record() }\n\nfunc record() error {\n"+
			g.code(t, "proberec.Create")+"\n\treturn nil\n}\n")
		d.inModule(t, "shop", "go vet .")
	})

	var start string
	g.dir, start = g.shop(t)
	address, file := freeAddress(t), t.TempDir()+"/shop.rec"
	replace := []string{"./shop -record", "./shop -listen " + address + " -record", "localhost:8080", address, "127.0.0.1:8080", address, "/dev/shm/shop.rec", file}
	g.replace = strings.NewReplacer(replace...)
	p := g.start(t, "env STAPSDT_DIR="+t.TempDir()+"/images "+g.replace.Replace(start))
	p.WaitLine(" serves http://127.", testenv.Patience)
	pid := strconv.Itoa(p.PID())
	g.replace = strings.NewReplacer(append(replace, "PID", pid)...)

	var script []string
	for _, c := range g.find(t, "kill -KILL PID").consoles() {
		script = append(script, g.replace.Replace(c.command))
	}
	g.run(t, strings.Join(script, "\n"))
	require.Error(t, p.Wait(testenv.Patience))

	ask := func(text string, more ...string) (c console, printed string) {
		t.Helper()
		own := strings.NewReplacer(append(more, replace...)...)
		c = g.find(t, text).consoles()[0]
		for i, line := range c.output {
			c.output[i] = own.Replace(line)
		}
		return c, g.run(t, own.Replace(c.command))
	}
	follow := func(text string, more ...string) {
		t.Helper()
		c, printed := ask(text, more...)
		requirePrinted(t, c, printed)
	}
	screen := nonempty(strings.Split(g.run(t, "stapsdt postmortem "+file), "\n"))
	shown := regexp.MustCompile("(?s)```\n# stapsdt postmortem shop\n(.*?)\n```").FindStringSubmatch(readFile(t, root+"README.md"))
	own := strings.NewReplacer(replace...)
	for i, line := range nonempty(strings.Split(shown[1], "\n")) {
		require.Regexp(t, expected(own.Replace(line), shape), shape(screen[i]))
	}
	follow("stapsdt list")
	top, printed := ask("stapsdt top")
	_, open, found := strings.Cut(printed, "\n\n") // what is above depends on how much of the requests was in the last second
	require.True(t, found, printed)
	require.Regexp(t, `^\S+ +\S+ operations/s +\S+ errors/s +4 open +of the last `, printed)
	top.output = top.output[slices.IndexFunc(top.output, func(line string) bool { return strings.Contains(line, "OPEN FOR") }):]
	requirePrinted(t, top, open)
	follow("stapsdt tree", "797", regexp.MustCompile(`shop:request (\d+) +method="GET" path="/report"`).FindStringSubmatch(open)[1])
	follow("stapsdt hist")
	follow("stapsdt count")

	next := g.find(t, "is kept").consoles()[0]
	again := g.start(t, g.replace.Replace(next.command))
	says := again.WaitLine("the recording of the last run is kept", testenv.Patience)
	require.Contains(t, shape(next.output[0]), `msg="the recording of the last run is kept" file=`)
	kept := regexp.MustCompile(` file=(\S+)`).FindStringSubmatch(says)
	require.NotNil(t, kept, says)
	require.Contains(t, g.run(t, "stapsdt list --from "+kept[1]), "(process "+pid+", ")
}

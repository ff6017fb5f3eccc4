//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuideCommand builds the command, and runs it on the program of debugprobe.md.
func TestGuideCommand(t *testing.T) {
	needs(t)
	g := readGuide(t, "command.md")
	page := string(must(os.ReadFile(repository(t) + "/docs/debugprobe.md")))
	code := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindStringSubmatch(page)[1]
	code = strings.Replace(code, "func main() {\n", "func main() {\n\tif err := app.Load(); err != nil {\n\t\tlog.Fatal(err)\n\t}\n", 1)
	address := g.server(t, code)
	g.inModule(t, "app", "go build -o app .")
	buildCommand(t)
	p := g.start(t, "env STAPSDT_DIR="+t.TempDir()+"/stapsdt-0 ./app")
	pid := strconv.Itoa(p.PID())
	g.run(t, "for i in $(seq 600); do stapsdt list -p "+pid+" && exit; sleep 0.1; done; exit 1")
	g.replace = strings.NewReplacer("PID COMM", "PID COMM", "PID", pid, "localhost:8080", address)
	for _, text := range []string{"$ stapsdt list -p PID", "trace -p PID 'myapp:*' -n 3", "-o json -w", "trace http://", "count -p PID", "stack -p PID", "-o pprof", "--for bpftrace"} {
		g.follow(t, text)
	}
	t.Cleanup(func() { g.run(t, "! test -e app.sh || sh app.sh remove") })
	g.follow(t, "--for tracefs >app.sh")
	// The average and the quantiles differ from run to run.
	hist := g.find(t, "stapsdt hist -p PID").consoles()[0]
	printed := g.run(t, g.replace.Replace(hist.command))
	require.Regexp(t, `(?m)^count \d+  average [\d.]+ms  p50 [\d.]+ms  p90 [\d.]+ms  p99 [\d.]+ms  p999 [\d.]+ms$`, printed)
	for _, line := range hist.output[:len(hist.output)-1] {
		require.Regexp(t, "(?m)"+expected(line).String(), guideLines(printed))
	}
}

// guideLines returns the shapes of lines.
func guideLines(text string) string {
	var shapes []string
	for line := range strings.Lines(text) {
		shapes = append(shapes, guideShape(line))
	}
	return strings.Join(shapes, "\n")
}

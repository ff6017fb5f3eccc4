//go:build linux && (amd64 || arm64)

package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuideTutorial builds the tutorial's program and the command, and asks the program as the tutorial does.
func TestGuideTutorial(t *testing.T) {
	needsTracers(t)
	g := readGuide(t, "tutorial.md")
	address := g.server(t, strings.Join(g.find(t, "package main").lines, "\n"))
	g.inModule(t, "app", "go vet .; go build -o app .")
	buildCommand(t)
	p := g.start(t, "env STAPSDT_DIR="+t.TempDir()+"/stapsdt-0 ./app")
	pid := strconv.Itoa(p.PID())
	g.run(t, "for i in $(seq 600); do stapsdt list -p "+pid+" && exit; sleep 0.1; done; exit 1")
	g.replace = strings.NewReplacer("PID COMM", "PID COMM", "PID", pid, "localhost:8081", address)
	t.Cleanup(func() { g.run(t, "! test -e app.sh || sh app.sh remove") })
	t.Run("commands", func(t *testing.T) { // at the same time, because many of them take two seconds
		for _, text := range []string{"$ stapsdt list -p PID", "request__done -n 3", "-n 2", "-o json -w", "--by path,status", "--by status -d 2s", "-o pprof",
			"trace http://", "--for bpftrace", "doctor -p PID", "--for tracefs >app.sh"} {
			b := g.find(t, text)
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				g.followBlock(t, b)
			})
		}
		for text, rest := range map[string]string{
			"stapsdt hist -p PID":    "",
			"stapsdt latency -p PID": `(?m)^\d+ starts? without an end \(\d+ still open\); \d+ ends? without a start$`,
		} {
			c := g.find(t, text).consoles()[0]
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				g.distribution(t, c, rest)
			})
		}
	})
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
	for _, line := range c.output {
		if quantiles.MatchString(line) {
			break
		}
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

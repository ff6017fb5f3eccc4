//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuideGenerate follows the section of command.md on generate: what it prints of a file in D
// is what is generated, and it is a program's.
func TestGuideGenerate(t *testing.T) {
	g := readGuide(t, "command.md")
	buildCommand(t)
	write := func(name string, lines []string) {
		require.NoError(t, os.WriteFile(g.dir+"/"+name, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	write("myapp.d", g.find(t, "provider myapp {").lines)
	write("bad.d", g.find(t, "provider bad {").lines)
	exact := func(c console) {
		require.Equal(t, nonempty(c.output), nonempty(strings.Split(g.run(t, c.command), "\n")), c.command)
	}

	generate := g.find(t, "$ stapsdt generate myapp.d").consoles()
	g.run(t, generate[0].command)
	exact(generate[1])
	refused := g.find(t, "# stapsdt generate bad.d").consoles()[0]
	refused.command = "! " + refused.command + " 2>&1"
	exact(refused)
	g.run(t, "! test -e bad_probes.go")

	write("main.go", append([]string{"package main"}, append(g.find(t, "go:generate").lines, `
func main() {
	if err := MyappProvider.Load(); err != nil {
		panic(err)
	}
	RequestDone.Fire("/", 200, 512)
}`)...))
	g.run(t, "rm myapp_probes.go")
	g.inModule(t, "app", "go generate; STAPSDT_DIR=$PWD/images go run .")
	g.run(t, "ls images/myapp-*.so")
}

// nonempty returns the lines that have text, without what surrounds it.
func nonempty(lines []string) (all []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

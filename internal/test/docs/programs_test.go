//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestGuidePrograms lists the probes of Debian's programs, and traces them while they run. A
// block has the tracer first, and then what fires the probes.
func TestGuidePrograms(t *testing.T) {
	needs(t)
	needsAMD64(t)
	if release, err := os.ReadFile("/etc/os-release"); err != nil || !strings.Contains(string(release), "VERSION_CODENAME=bookworm\n") {
		t.Skip("the guide shows the programs of Debian 12")
	}
	testenv.NeedsTool(t, "/usr/bin/ruby", "ruby")
	testenv.NeedsTool(t, "/usr/bin/php", "php-cli")
	testenv.NeedsTool(t, "/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "openjdk-17-jre-headless")
	testenv.NeedsTool(t, "/usr/lib/postgresql/15/bin/postgres", "postgresql-15")
	g := readGuide(t, "programs.md")
	buildCommand(t)
	for _, b := range g.blocks {
		if b.excused {
			continue
		}
		b.followed = true
		for consoles := b.consoles(); len(consoles) > 0; consoles = consoles[1:] {
			program := "true"
			if strings.HasPrefix(consoles[0].command, "stapsdt trace") {
				program = consoles[1].command
			}
			g.prints(t, consoles[0], program)
			if program != "true" {
				consoles = consoles[1:]
			}
		}
	}
}

// others is what list adds if other tests use the programs at the same time.
var others = regexp.MustCompile(`( \(process(es)? .*\)|(  #|,) traced now)$`)

// prints runs a command of a guide, and a program again and again until the command ends.
func (g *guide) prints(t *testing.T, c console, program string) {
	t.Helper()
	p := startGroup(t, g.dir, "exec "+c.command)
	for deadline := time.Now().Add(testenv.Patience); !p.Ended(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "%s\n%s", c.command, p.Dump())
		g.run(t, program)
	}
	require.NoError(t, p.Wait(testenv.Patience))
	alone := func(line string) string { return shape(others.ReplaceAllString(line, "")) }
	require.Empty(t, c.missing(p.Lines(), alone), "%s\nhas not printed this\n%s", c.command, p.Dump())
}

//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestGuideWithoutRoot follows the guide as a user without any capability, to whom the kernel refuses bpf and
// perf_event_open.
func TestGuideWithoutRoot(t *testing.T) {
	testenv.NeedsRoot(t)
	needs(t)
	g := readGuide(t, "without-root.md")
	g.program(t, strings.Join(g.find(t, "probesock.Listen()").lines, "\n"))
	blocks := g.find(t, "./shop").consoles()
	require.Len(t, blocks, 2)
	g.inModule(t, "shop", blocks[0].command)
	require.Equal(t, "./shop", blocks[1].command)
	g.run(t, "go build -C "+repository(t)+"/cmd/stapsdt -o $PWD/stapsdt .")
	for dir := g.dir; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	g.run(t, "mkdir tmp && chown 4242 tmp && chmod 755 shop stapsdt")
	g.run(t, "go build -C "+repository(t)+"/internal/test -o $PWD/unprivileged ./sandbox/unprivileged")
	as := "env -u STAPSDT_DIR -u XDG_RUNTIME_DIR TMPDIR=" + g.dir + "/tmp PATH=" + g.dir + ":$PATH " + g.dir + "/unprivileged 4242 /bin/bash -c "

	p := g.start(t, as+"'exec ./shop'")
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
}

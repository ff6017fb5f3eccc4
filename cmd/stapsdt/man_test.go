//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPages: a manual page has what --help has, and the date of its source; the help lists the verbs that have pages.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	directory := t.TempDir()
	output(t, "man", directory)
	trace := read(t, filepath.Join(directory, "stapsdt-trace.1"))
	for _, want := range []string{
		".SH SYNOPSIS\n\\fBstapsdt trace (SPEC... (-p PID", "between NAME__start and NAME__end are", ".TP\n\\fB-a\\fP, \\fB--all\\fP\nevery process on the machine",
		".TP\n\\fB-n\\fP, \\fB--number\\fP N\nend after \\fBN\\fR events\n", "\\fB--strlen\\fP N (default 256)\nshow at most", "NAMESPACE/POD[/CONTAINER], with * for any",
		".SH EXAMPLE\n.EX\n  stapsdt trace -p 1234 'myapp:*'\n", ".SH EXIT STATUS\n.EX\n0  done;",
	} {
		assert.Contains(t, trace, want, "the page of trace")
	}
	for _, unwanted := range []string{"[=", "=[]", "=0", "--single"} {
		assert.NotContains(t, trace, unwanted, "the page of trace")
	}
	root := read(t, filepath.Join(directory, "stapsdt.1"))
	assert.Contains(t, root, "\\fBstapsdt COMMAND [ARGUMENT...] [flags]\\fP\n")
	assert.True(t, strings.HasPrefix(root, ".nh\n.TH \"STAPSDT\" \"1\" \"2001-09-09\" "), root)
	help := output(t, "help")
	for _, topic := range topics() {
		assert.Contains(t, root, ".SH "+strings.ToUpper(topic.Name())+"\n", "the page of stapsdt")
		assert.Contains(t, help, "stapsdt "+topic.Name()+" ")
		assert.Equal(t, topic.Long, strings.TrimSpace(output(t, "help", topic.Name())))
	}
	pages, err := filepath.Glob(filepath.Join(directory, "stapsdt-*.1"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(pages), 12)
	for _, page := range pages {
		verb := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "stapsdt-"), ".1")
		assert.Contains(t, help, "\n  "+verb+" ", "%s is not in the help, or not in the page of stapsdt", verb)
		assert.Contains(t, root, "\n"+verb+" ", "%s is not in the help, or not in the page of stapsdt", verb)
	}
	t.Run("mandoc", func(t *testing.T) { // which reports nothing about any
		mandoc := testenv.NeedsTool(t, "mandoc", "mandoc")
		out, err := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "warning", filepath.Join(directory, "stapsdt.1")}, pages...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, string(out))
	})
	offered, _ := completed(t, "ma")
	if assert.Len(t, offered, 1, "completion") {
		assert.True(t, strings.HasPrefix(offered[0], "man\t"), "completion: %q", offered)
	}
}

// TestStatuses: the help and the guide say the same of the exit statuses.
func TestStatuses(t *testing.T) {
	help := strings.Join(strings.Fields(output(t, "--help")), " ")
	_, section, found := strings.Cut(strings.ReplaceAll(read(t, "../../docs/command.md"), "`", ""), "## Exit statuses")
	require.True(t, found, "docs/command.md has no such section")
	for _, s := range statusMeanings {
		assert.Contains(t, help, fmt.Sprintf("%d %s", s.status, s.meaning), "the help has no %d", s.status)
		assert.Contains(t, section, fmt.Sprintf("| %d | %s |", s.status, s.meaning), "docs/command.md has no %d", s.status)
	}
	assert.Equal(t, len(statusMeanings)+1, strings.Count(section, "\n| "), "the rows of docs/command.md")
}

// TestVersion: version and --version print what the release script sets, and the version of Go.
func TestVersion(t *testing.T) {
	assert.Contains(t, output(t, "version"), runtime.Version())
	t.Cleanup(func() { release, commit = "", "" })
	release, commit = "v1.2.3", "0123abc"
	text := output(t, "--version")
	assert.Equal(t, output(t, "version"), text)
	want := "stapsdt version v1.2.3 (commit 0123abc, " + runtime.Version() + " "
	assert.True(t, strings.HasPrefix(text, want), "%q, want %q", text, want)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// output returns what the command prints, which must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, problem bytes.Buffer
	require.Zero(t, execute(args, &out, &problem), "%q, %s", args, &problem)
	return out.String()
}

// completed returns what a shell is offered after these arguments, and what the shell does then.
func completed(t *testing.T, args ...string) (lines []string, directive string) {
	t.Helper()
	lines = strings.Split(strings.TrimSpace(output(t, append([]string{"__complete"}, args...)...)), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPages: a manual page has what --help has, and the help lists the verbs that have pages.
func TestPages(t *testing.T) {
	directory := t.TempDir()
	var out, problem bytes.Buffer
	require.Zero(t, execute([]string{"man", directory}, &out, &problem), problem.String())
	trace := read(t, filepath.Join(directory, "stapsdt-trace.1"))
	for _, want := range []string{
		".SH SYNOPSIS\n\\fBstapsdt trace\\fP (SPEC...", ".TP\n\\fB\\-a\\fP, \\fB\\-\\-all\\fP\nevery process on the machine",
		".TP\n\\fB\\-n\\fP, \\fB\\-\\-number\\fP \\fIN\\fP\nend after N events\n", "\\fB\\-\\-strlen\\fP \\fIN\\fP\nshow at most N bytes of a text, up to 4000 (default 256)\n",
		"\\fB\\-h\\fP, \\fB\\-\\-help\\fP\n", ".SH EXAMPLES\n.EX\n  stapsdt trace \\-p 1234 'myapp:*'\n", ".SH EXIT STATUS\n.TP\n0\ndone;", ".TP\n2\nthe command line or an expression is wrong\n",
	} {
		assert.Contains(t, trace, want, "the page of trace")
	}
	for _, unwanted := range []string{"[=", "=[]", "=0", "\\-\\-single", "doctor"} {
		assert.NotContains(t, trace, unwanted, "the page of trace")
	}
	doctor := read(t, filepath.Join(directory, "stapsdt-doctor.1"))
	assert.Contains(t, doctor, ".TP\n7\nonly doctor", "the page of doctor")
	root := read(t, filepath.Join(directory, "stapsdt.1"))
	require.Zero(t, execute([]string{"help"}, &out, &problem))
	pages, err := filepath.Glob(filepath.Join(directory, "stapsdt-*.1"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(pages), 12)
	for _, page := range pages {
		verb := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "stapsdt-"), ".1")
		assert.Contains(t, out.String(), "\n  "+verb+" ", "%s is not in the help, or not in the page of stapsdt", verb)
		assert.Contains(t, root, "\\fB"+verb+"\\fP", "%s is not in the help, or not in the page of stapsdt", verb)
	}
	offered, _ := completed(t, "ma")
	if assert.Len(t, offered, 1, "completion") {
		assert.True(t, strings.HasPrefix(offered[0], "man\t"), "completion: %q", offered)
	}
}

// TestStatuses: the help and the guide say the same of the exit statuses.
func TestStatuses(t *testing.T) {
	var out, problem bytes.Buffer
	execute([]string{"--help"}, &out, &problem)
	help := strings.Join(strings.Fields(out.String()), " ")
	_, section, found := strings.Cut(strings.ReplaceAll(read(t, "../../docs/command.md"), "`", ""), "## Exit statuses")
	require.True(t, found, "docs/command.md has no such section")
	for _, s := range statusMeanings {
		assert.Contains(t, help, fmt.Sprintf("%d %s", s.status, s.meaning), "the help has no %d", s.status)
		assert.Contains(t, section, fmt.Sprintf("| %d | %s |", s.status, s.meaning), "docs/command.md has no %d", s.status)
	}
	assert.Equal(t, len(statusMeanings)+1, strings.Count(section, "\n| "), "the rows of docs/command.md")
}

func TestVersion(t *testing.T) {
	var verb, flag, problem bytes.Buffer
	assert.Zero(t, execute([]string{"version"}, &verb, &problem), problem.String())
	execute([]string{"--version"}, &flag, &problem)
	assert.NotEmpty(t, verb.String(), "version and --version")
	assert.Equal(t, flag.String(), verb.String(), "version and --version")
	assert.Contains(t, verb.String(), runtime.Version(), "the version of Go")
}

// TestReleaseVersion: --version prints what the release script sets.
func TestReleaseVersion(t *testing.T) {
	t.Cleanup(func() { release, commit = "", "" })
	release, commit = "v1.2.3", "0123abc"
	var out, problem bytes.Buffer
	execute([]string{"--version"}, &out, &problem)
	want := "stapsdt version v1.2.3 (commit 0123abc, " + runtime.Version() + " "
	assert.True(t, strings.HasPrefix(out.String(), want), "%q, want %q", &out, want)
}

// TestPageDate: the pages of a package have the date of its source, in any time zone.
func TestPageDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	directory := t.TempDir()
	var out, problem bytes.Buffer
	require.Zero(t, execute([]string{"man", directory}, &out, &problem), problem.String())
	page := read(t, filepath.Join(directory, "stapsdt.1"))
	assert.True(t, strings.HasPrefix(page, ".TH STAPSDT 1 2001-09-09 "), page)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// completed returns what a shell is offered after these arguments, and what the shell does then.
func completed(t *testing.T, args ...string) (lines []string, directive string) {
	t.Helper()
	var out, notes bytes.Buffer
	require.Zero(t, execute(append([]string{"__complete"}, args...), &out, &notes), "%q, %s", args, &notes)
	lines = strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

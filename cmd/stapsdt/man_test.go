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

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	assert.NotContains(t, trace, "--single", "the page of trace")
	root := read(t, filepath.Join(directory, "stapsdt.1"))
	assert.Contains(t, root, "\\fBstapsdt COMMAND [ARGUMENT...] [flags]\\fP\n")
	assert.True(t, strings.HasPrefix(root, ".nh\n.TH \"STAPSDT\" \"1\" \"2001-09-09\" "), root)
	help := output(t, "help")
	for _, topic := range topics() {
		assert.Contains(t, root, ".SH "+strings.ToUpper(topic.Name())+"\n", "the page of stapsdt")
		assert.Contains(t, help, "stapsdt "+topic.Name()+" ")
		want := topic.Long
		if topic.Name() == "json" {
			want = strings.TrimSpace(string(schemaText()))
		}
		assert.Equal(t, want, strings.TrimSpace(output(t, "help", topic.Name())))
	}
	pages, err := filepath.Glob(filepath.Join(directory, "stapsdt-*.1"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(pages), 12)
	for _, page := range pages {
		verb := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "stapsdt-"), ".1")
		assert.Contains(t, help, "\n  "+verb+" ", "%s is not in the help, or not in the page of stapsdt", verb)
		assert.Contains(t, root, "\n"+verb+" ", "%s is not in the help, or not in the page of stapsdt", verb)
		c, _, err := rootCommand(&console.Console{}).Find([]string{verb})
		require.NoError(t, err)
		checkOptions(t, c, read(t, page))
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

// checkOptions checks that a page has a tag for each flag of a command, and nothing of the generator's notation.
func checkOptions(t *testing.T, c *cobra.Command, page string) {
	t.Helper()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			assert.Regexp(t, `\.TP\n(\\fB-.\\fP, )?\\fB--`+f.Name+`\\fP( [^=\]\n]*)?\n`, page, c.Name())
		}
	})
	for _, unwanted := range []string{"[=", "=[]", "=0", "\n\t"} {
		assert.NotContains(t, page, unwanted, "the page of %s", c.Name())
	}
}

// TestPageOptions: an option of any name and any type is one, with its default.
func TestPageOptions(t *testing.T) {
	c := &cobra.Command{Use: "any", Run: func(*cobra.Command, []string) {}}
	c.Flags().BoolFunc("log10", "an own function", func(string) error { return nil })
	c.Flags().BoolP("2nd_half", "2", true, "a bool that is true")
	c.Flags().CountP("more", "m", "a number of flags")
	c.Flags().String("word", "", "a text")
	directory := t.TempDir()
	require.NoError(t, writePage(c, directory))
	page := read(t, filepath.Join(directory, "any.1"))
	checkOptions(t, c, page)
	for _, want := range []string{
		"\\fB--log10\\fP\nan own", "\\fB-2\\fP, \\fB--2nd_half\\fP (default true)\na bool",
		"\\fB--more\\fP count\na number", "\\fB--word\\fP string\na text",
	} {
		assert.Contains(t, page, want)
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

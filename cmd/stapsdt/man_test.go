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
)

// TestPages: a manual page has what --help has, and the help lists the verbs that have pages.
func TestPages(t *testing.T) {
	directory := t.TempDir()
	var out, problem bytes.Buffer
	if status := execute([]string{"man", directory}, &out, &problem); status != 0 {
		t.Fatal(status, problem.String())
	}
	trace := read(t, filepath.Join(directory, "stapsdt-trace.1"))
	for _, want := range []string{
		".SH SYNOPSIS\n\\fBstapsdt trace\\fP (SPEC...", ".TP\n\\fB\\-a\\fP, \\fB\\-\\-all\\fP\nevery process on the machine",
		".TP\n\\fB\\-n\\fP, \\fB\\-\\-number\\fP \\fIN\\fP\nend after N events\n", "\\fB\\-\\-strlen\\fP \\fIN\\fP\nshow at most N bytes of a text, up to 4000 (default 256)\n",
		"\\fB\\-h\\fP, \\fB\\-\\-help\\fP\n", ".SH EXAMPLES\n.EX\n  stapsdt trace \\-p 1234 'myapp:*'\n", ".SH EXIT STATUS\n.TP\n0\ndone;", ".TP\n2\nthe command line or an expression is wrong\n",
	} {
		if !strings.Contains(trace, want) {
			t.Errorf("the page of trace has no %q: %s", want, trace)
		}
	}
	for _, unwanted := range []string{"[=", "=[]", "=0", "\\-\\-single", "doctor"} {
		if strings.Contains(trace, unwanted) {
			t.Errorf("the page of trace has %q", unwanted)
		}
	}
	if doctor := read(t, filepath.Join(directory, "stapsdt-doctor.1")); !strings.Contains(doctor, ".TP\n7\nonly doctor") {
		t.Errorf("the page of doctor: %s", doctor)
	}
	root := read(t, filepath.Join(directory, "stapsdt.1"))
	if status := execute([]string{"help"}, &out, &problem); status != 0 {
		t.Fatal(status)
	}
	pages, err := filepath.Glob(filepath.Join(directory, "stapsdt-*.1"))
	if err != nil || len(pages) < 12 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		verb := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "stapsdt-"), ".1")
		if !strings.Contains(out.String(), "\n  "+verb+" ") || !strings.Contains(root, "\\fB"+verb+"\\fP") {
			t.Errorf("%s is not in the help, or not in the page of stapsdt", verb)
		}
	}
	if offered, _ := completed(t, "ma"); len(offered) != 1 || !strings.HasPrefix(offered[0], "man\t") {
		t.Errorf("completion: %q", offered)
	}
}

// TestStatuses: the help and the guide say the same of the exit statuses.
func TestStatuses(t *testing.T) {
	var out, problem bytes.Buffer
	execute([]string{"--help"}, &out, &problem)
	help := strings.Join(strings.Fields(out.String()), " ")
	_, section, found := strings.Cut(strings.ReplaceAll(read(t, "../../docs/command.md"), "`", ""), "## Exit statuses")
	if !found {
		t.Fatal("docs/command.md has no such section")
	}
	for _, s := range statusMeanings {
		if !strings.Contains(help, fmt.Sprintf("%d %s", s.status, s.meaning)) {
			t.Errorf("the help has no %d: %s", s.status, help)
		}
		if !strings.Contains(section, fmt.Sprintf("| %d | %s |", s.status, s.meaning)) {
			t.Errorf("docs/command.md has no %d", s.status)
		}
	}
	if rows := strings.Count(section, "\n| "); rows != len(statusMeanings)+1 {
		t.Errorf("docs/command.md has %d rows", rows)
	}
}

func TestVersion(t *testing.T) {
	var verb, flag, problem bytes.Buffer
	if status := execute([]string{"version"}, &verb, &problem); status != 0 {
		t.Error(status, problem.String())
	}
	execute([]string{"--version"}, &flag, &problem)
	if verb.String() == "" || verb.String() != flag.String() {
		t.Errorf("version: %q, --version: %q", &verb, &flag)
	}
	if !strings.Contains(verb.String(), runtime.Version()) {
		t.Errorf("version: %q has no version of Go", &verb)
	}
}

// TestReleaseVersion: --version prints what the release script sets.
func TestReleaseVersion(t *testing.T) {
	t.Cleanup(func() { release, commit = "", "" })
	release, commit = "v1.2.3", "0123abc"
	var out, problem bytes.Buffer
	execute([]string{"--version"}, &out, &problem)
	if want := "stapsdt version v1.2.3 (commit 0123abc, " + runtime.Version() + " "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestPageDate: the pages of a package have the date of its source, in any time zone.
func TestPageDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	directory := t.TempDir()
	var out, problem bytes.Buffer
	if status := execute([]string{"man", directory}, &out, &problem); status != 0 {
		t.Fatal(status, problem.String())
	}
	if page := read(t, filepath.Join(directory, "stapsdt.1")); !strings.HasPrefix(page, ".TH STAPSDT 1 2001-09-09 ") {
		t.Errorf("%.60s", page)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// completed returns what a shell is offered after these arguments, and what the shell does then.
func completed(t *testing.T, args ...string) (lines []string, directive string) {
	t.Helper()
	var out, notes bytes.Buffer
	if status := execute(append([]string{"__complete"}, args...), &out, &notes); status != 0 {
		t.Fatalf("%q: status %d, %s", args, status, &notes)
	}
	lines = strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

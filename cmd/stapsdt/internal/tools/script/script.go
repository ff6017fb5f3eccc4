//go:build linux

// Package script writes programs for bpftrace that print the events of probes.
//
// Root runs them, and their names come from files of unknown origin. Names that are not known to be
// harmless are therefore quoted, or left out.
package script

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Site is a site of a probe.
type Site struct {
	sdt.Site
	File *File
}

// File is a file with sites.
type File struct {
	// Path is the absolute path of the file.
	Path string
	// PID is the process through whose /proc/PID/root Path leads, or 0.
	PID int
}

// Script defines the events that a program traces.
type Script struct {
	// Specs are the specs of the probes, as the user wrote them.
	Specs string
	// PIDs are the processes to which the program is restricted, or nil for all.
	PIDs  []int
	Sites []Site
	// Texts are the arguments that are strings although the files do not describe them as
	// strings, by their names or as arg0.
	Texts []string
}

// head writes the comment that begins a program: its events, and how to run it.
func (s *Script) head(b *strings.Builder) {
	fmt.Fprintf(b, "// Prints the events of %s", render.Printable(s.Specs))
	if len(s.PIDs) > 0 {
		pids := strings.Trim(fmt.Sprint(s.PIDs), "[]")
		fmt.Fprintf(b, " of process %s", strings.ReplaceAll(pids, " ", " or "))
	}
	b.WriteString(". Run it as root:\n//\n//\tbpftrace FILE\n")
	var needed []int
	for _, site := range s.Sites {
		if pid := site.File.PID; pid != 0 && !slices.Contains(needed, pid) {
			needed = append(needed, pid)
			fmt.Fprintf(b, "//\n// It finds a probe through process %d, and works as long as this runs.\n", pid)
		}
	}
}

// format is the format in which a value is shown.
type format uint8

const (
	signed format = iota
	unsigned
	address
	boolean
	duration
	float // shown as its bits
	characters
)

// value is an argument, with the name and the format that scripts use.
type value struct {
	sdt.Arg
	name   string // a valid identifier
	named  bool   // whether the file knows the name
	asked  string // its name in Texts, or ""
	format format
}

// values returns the arguments of a site. No two have the same name.
func (s *Script) values(site *Site) []value {
	var all []value
	for i, a := range site.Args {
		position := fmt.Sprintf("arg%d", i)
		v := value{Arg: a, name: a.Name, named: identifier(a.Name)}
		if !v.named ||
			slices.ContainsFunc(all, func(other value) bool { return other.name == a.Name }) {
			v.name, v.named = position, false
		}
		v.format = formatOf(a)
		for _, name := range s.Texts {
			if name == position || v.named && name == v.name {
				v.format, v.asked = characters, name
			}
		}
		all = append(all, v)
	}
	return all
}

func formatOf(a sdt.Arg) format {
	switch t := bpf.ArgType(a); {
	case t.Kind == expr.String:
		return characters
	case t.Kind == expr.Bool:
		return boolean
	case t.Kind == expr.Float:
		return float
	case t.Unit == kind.Nanoseconds:
		return duration
	case t.Kind == expr.Int:
		return signed
	case t.Unit == kind.Address:
		return address
	}
	return unsigned
}

// identifier reports whether a name can be part of a script as it is.
func identifier(name string) bool {
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return name != ""
}

func (v *value) size() int {
	if v.Size == 0 {
		return 8
	}
	return v.Size
}

// describe returns the probe with the names and types of its arguments, for a comment.
func (s *Site) describe() string {
	return render.Printable(fmt.Sprintf("%s:%s(%s)", s.Provider, s.Name, text.Signature(s.Site)))
}

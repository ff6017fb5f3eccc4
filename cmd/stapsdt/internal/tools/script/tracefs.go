//go:build linux

package script

import (
	_ "embed"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// body is the part of the script after the head, which is a comment, and the definitions. It adds the probes that these define,
// prints their events, and removes them.
//
//go:embed tracefs.sh
var body string

// Tracefs returns a shell script that creates a kernel event for each site, with typed
// arguments, prints the events, and removes them. skipped has a message for each argument
// that tracefs cannot read and that is therefore not in the events.
func (s *Script) Tracefs() (script string, skipped []string) {
	var head, define strings.Builder
	head.WriteString("#!/bin/sh\n")
	s.head(&head, "#", " and what they fork", "sh FILE           until Ctrl-C", "sh FILE add       only makes the events",
		"sh FILE print     prints the events", "sh FILE remove    removes the events")
	head.WriteString("#\n")
	var names []string
	var file *File
	for i := range s.Sites {
		site := &s.Sites[i]
		if site.File != file {
			file = site.File
			fmt.Fprintf(&define, "\tfile %s %s\n", shellQuoted(file.Path), file.SHA256)
		}
		group := unique("stapsdt_"+site.Provider, maxEvent, nil)
		prefix := group + "/"
		name := unique(site.Name, maxEvent, after(names, prefix))
		names = append(names, prefix+name)
		fmt.Fprintf(&head, "# %s%s is %s\n", prefix, name, site.describe())
		definition, without := s.definition(site)
		for _, why := range without {
			skipped = append(skipped, render.Printable(site.Provider+":"+site.Name+": "+why))
		}
		semaphore := ""
		if site.SemaphoreOffset != 0 {
			semaphore = fmt.Sprintf("(%#x)", site.SemaphoreOffset)
		}
		fmt.Fprintf(&define, "\tdefine %s%s '%#x%s%s'\n", prefix, name, site.Offset, semaphore, definition)
	}
	pids := strings.Trim(fmt.Sprint(s.PIDs), "[]")
	settings := fmt.Sprintf("\npids='%s'\nevents='%s'\ndefine_all() {\n%s}\n", pids, strings.Join(names, " "), define.String())
	instance := fmt.Sprintf("instance=stapsdt_%08x\n", crc32.ChecksumIEEE([]byte(settings)))
	return head.String() + settings + instance + body, skipped
}

// after returns the rest of the names that begin with a prefix.
func after(names []string, prefix string) (rests []string) {
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			rests = append(rests, rest)
		}
	}
	return rests
}

// definition returns the arguments of an event, each after a space. They contain no quotes.
func (s *Script) definition(site *Site) (definition string, without []string) {
	var names []string
	for i, v := range s.values(site) {
		what := site.fetch(i, &v)
		if what == "" {
			without = append(without, fmt.Sprintf("without %s: tracefs cannot read %s", v.name, v.Arg))
			continue
		}
		name := unique(v.name, maxArgument, names)
		names = append(names, name)
		definition += " " + name + "=" + what
	}
	return definition, without
}

func shellQuoted(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

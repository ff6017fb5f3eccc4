//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/spf13/cobra"
)

// runtimes are providers of the C library and its kin, which nearly every process has, so that
// they say nothing of a process.
var runtimes = []string{"libc", "rtld", "libm", "libpthread", "libstdcxx", "libgcc"}

// completePID completes -p with the processes that have probes, and with what they have.
func completePID(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	pids, err := target.Processes()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	finder := target.NewFinder()
	defer finder.Close()
	before := word[:strings.LastIndexByte(word, ',')+1]
	var all []string
	for _, pid := range pids {
		uses, _, err := finder.Process(pid)
		if err != nil {
			continue
		}
		var providers []string
		for _, u := range uses {
			for _, p := range u.Probes {
				if !slices.Contains(providers, p.Provider) && !slices.Contains(runtimes, p.Provider) {
					providers = append(providers, p.Provider)
				}
			}
		}
		if len(providers) == 0 {
			continue
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		what := strings.TrimSpace(string(name)) + ": " + strings.Join(providers, ", ")
		all = append(all, before+strconv.Itoa(pid)+"\t"+render.Printable(what))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeSpecs lets the verbs that take a SPEC complete it.
func completeSpecs(root *cobra.Command) {
	for _, verb := range root.Commands() {
		if verb.Flags().Lookup("pid") != nil && verb.Name() != "list" {
			verb.ValidArgsFunction = completeSpec
		}
	}
}

// completeSpec completes a SPEC: with the probes of the processes of -p or -a, and of the FILE
// that the word begins with. Without any of them the word is the beginning of a FILE.
func completeSpec(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	finder := target.NewFinder()
	defer finder.Close()
	var names completions
	if path, _, ok := strings.Cut(word, ":"); ok && strings.Contains(path, "/") {
		if f, err := finder.Open(path); err == nil {
			names.add(f, path+":")
		}
	} else {
		var named pidList
		_ = named.Set(c.Flags().Lookup("pid").Value.String())
		every, _ := c.Flags().GetBool("all")
		if !every && len(named) == 0 {
			return nil, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
		}
		found, err := (&probes.Target{PIDs: named, All: every}).Look(finder)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, f := range found.Files {
			names.add(f, "")
		}
	}
	if c.Name() == "hist" && len(args) > 0 {
		return names.arguments(args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	slices.Sort(names.all)
	return slices.Compact(names.all), cobra.ShellCompDirectiveNoFileComp
}

// completions are the names of probes, each with its arguments after a tab.
type completions struct {
	all   []string
	files []*target.File
}

func (l *completions) add(f *target.File, before string) {
	l.files = append(l.files, f)
	for _, p := range f.Probes {
		name := before + p.Provider + ":" + p.Name
		if name == render.Printable(name) {
			l.all = append(l.all, name+"\t"+render.Printable("("+target.Signature(p)+")"))
		}
	}
}

// arguments returns the names of the arguments of a probe, each with its type.
func (l *completions) arguments(text string) (all []string) {
	spec, err := target.ParseSpec(text)
	if err != nil {
		return nil
	}
	for _, f := range l.files {
		for _, p := range f.Probes {
			if !spec.Match(p.Provider, p.Name) {
				continue
			}
			for i, a := range p.Args {
				name := a.Name
				if name == "" {
					name = fmt.Sprintf("arg%d", i)
				}
				all = append(all, name+"\t"+render.Printable(target.TypeName(a)))
			}
			return all
		}
	}
	return nil
}

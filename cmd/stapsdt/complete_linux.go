package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"

	"github.com/spf13/cobra"
)

// runtimes are the providers of the C and C++ libraries, which completions leave out because
// nearly every process has them.
var runtimes = []string{"libc", "rtld", "libm", "libpthread", "libstdcxx", "libgcc"}

// completePID completes -p with the PIDs of the processes that have probes, and with their names if
// these are unique. It describes each by its providers.
func completePID(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	pids, err := proc.Processes()
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
				if slices.Contains(providers, p.Provider) || slices.Contains(runtimes, p.Provider) {
					continue
				}
				providers = append(providers, p.Provider)
			}
		}
		if len(providers) == 0 {
			continue
		}
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		name, have := strings.TrimSpace(string(comm)), strings.Join(providers, ", ")
		all = append(all, before+strconv.Itoa(pid)+"\t"+render.Printable(name+": "+have))
		if called, err := proc.Called(name); err == nil && called == pid && isWord(name) {
			all = append(all, before+name+"\t"+render.Printable(fmt.Sprintf("%d: %s", pid, have)))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// isWord reports whether a name works as the value of -p without quotes: it is not a number, and
// has no characters that a shell interprets.
func isWord(name string) bool {
	quoted := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}
	return name != "" && !isNumber(name) && name[0] != '-' && !strings.ContainsFunc(name, quoted)
}

// offeredByFiles returns the probes of the processes of a target, or of the FILE that a word begins
// with.
func offeredByFiles(named *query.Target, word string) ([]completion, cobra.ShellCompDirective) {
	finder := target.NewFinder()
	defer finder.Close()
	path, _, hasColon := strings.Cut(word, ":")
	all := []completion{}
	switch {
	case hasColon && strings.Contains(path, "/"):
		if f, err := finder.Open(path); err == nil {
			all = appendFile(all, f, path+":")
		}
	case !named.Given():
		return nil, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
	default:
		found, err := probes.LookAt(named, finder)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, f := range found.Files {
			all = appendFile(all, f, "")
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

func appendFile(all []completion, f *target.File, before string) []completion {
	for _, p := range f.Probes {
		one := completion{
			before: before, provider: p.Provider, name: p.Name, signature: text.Signature(p),
		}
		for _, a := range p.Args {
			one.add(a.Name, text.TypeName(a))
		}
		all = append(all, one)
	}
	return all
}

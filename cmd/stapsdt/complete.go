//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/spf13/cobra"
)

// runtimes are the providers of the C and C++ libraries, which completions leave out because
// nearly every process has them.
var runtimes = []string{"libc", "rtld", "libm", "libpthread", "libstdcxx", "libgcc"}

// completePID completes -p with the PIDs of the processes that have probes, and with their names if these are unique. It
// describes each by its providers.
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
				if !slices.Contains(providers, p.Provider) && !slices.Contains(runtimes, p.Provider) {
					providers = append(providers, p.Provider)
				}
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

// isWord reports whether -p and a shell take a name as it is: it is no number, and needs no quotes.
func isWord(name string) bool {
	return name != "" && !isNumber(name) && name[0] != '-' && strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}) < 0
}

// completeSpecs lets the verbs that take a SPEC complete it.
func completeSpecs(root *cobra.Command) {
	for _, verb := range root.Commands() {
		if verb.Flags().Lookup("pid") != nil && verb.Name() != "list" {
			verb.ValidArgsFunction = completeSpec
		}
		for _, flag := range []string{"where", "by", "show", "sum"} {
			if verb.Flags().Lookup(flag) != nil {
				_ = verb.RegisterFlagCompletionFunc(flag, completeExpression)
			}
		}
	}
}

// completeSpec completes a SPEC: with the probes of the recordings of --from, of the processes of -p or -a, or of the FILE
// that the word begins with. Without any of them the word is the beginning of a FILE.
func completeSpec(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	names, directive := offered(c, word)
	switch {
	case names == nil:
		return nil, directive
	case c.Name() == "hist" && len(args) > 0:
		return names.arguments(args[0]), cobra.ShellCompDirectiveNoFileComp
	case c.Name() == "top" || c.Name() == "tree":
		return names.operations(), cobra.ShellCompDirectiveNoFileComp
	}
	slices.Sort(names.all)
	return slices.Compact(names.all), cobra.ShellCompDirectiveNoFileComp
}

// completeExpression completes the last name of an expression, with the arguments of the probes of the SPECs before it.
func completeExpression(c *cobra.Command, args []string, word string) (all []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := offered(c, args[0])
	if names == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	before := word[:1+strings.LastIndexFunc(word, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })]
	for _, spec := range args {
		for _, name := range names.arguments(spec) {
			if strings.HasPrefix(before+name, word) {
				all = append(all, before+name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// offered returns the probes that complete a SPEC, or nil and another directive for the shell.
func offered(c *cobra.Command, word string) (*completions, cobra.ShellCompDirective) {
	var names completions
	finder := target.NewFinder()
	defer finder.Close()
	recordings, _ := c.Flags().GetStringArray("from") // none for record, which has no such flag
	var named probes.Target
	_ = processList{&named}.Set(c.Flags().Lookup("pid").Value.String())
	every, _ := c.Flags().GetBool("all")
	path, _, hasColon := strings.Cut(word, ":")
	switch {
	case len(recordings) > 0:
		if err := names.addRecorded(recordings); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
	case hasColon && strings.Contains(path, "/"):
		if f, err := finder.Open(path); err == nil {
			names.addFile(f, path+":")
		}
	case !every && !named.Given():
		return nil, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
	default:
		named.All = every
		found, err := named.Look(finder)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, f := range found.Files {
			names.addFile(f, "")
		}
	}
	return &names, cobra.ShellCompDirectiveNoFileComp
}

// completions are the names of probes, each with its arguments after a tab.
type completions struct {
	all    []string
	probes []completedProbe
}

// completedProbe is a probe whose arguments can be completed. An argument is its name, a tab, and its type.
type completedProbe struct {
	provider, name string
	args           []string
}

// addFile adds the probes of a file.
func (l *completions) addFile(f *target.File, before string) {
	for _, p := range f.Probes {
		probe := completedProbe{provider: p.Provider, name: p.Name}
		for i, a := range p.Args {
			probe.add(i, a.Name, spec.TypeName(a))
		}
		l.add(probe, before, spec.Signature(p))
	}
}

// addRecorded adds the probes of recordings.
func (l *completions) addRecorded(paths []string) error {
	source, err := replay.Open(replay.From{Paths: paths}, nil, "", nil)
	if err != nil {
		return err
	}
	defer source.Close()
	for _, p := range source.Probes() {
		probe := completedProbe{provider: p.Provider, name: p.Name}
		for i := range p.Args {
			name, kind := replay.Argument(p, i)
			probe.add(i, name, kind)
		}
		l.add(probe, "", replay.Signature(p))
	}
	return nil
}

func (l *completions) add(p completedProbe, before, signature string) {
	l.probes = append(l.probes, p)
	name := before + p.provider + ":" + p.name
	if name == render.Printable(name) {
		l.all = append(l.all, name+"\t"+render.Printable("("+signature+")"))
	}
}

// add adds the i-th argument.
func (p *completedProbe) add(i int, name, kind string) {
	if name == "" {
		name = fmt.Sprintf("arg%d", i)
	}
	p.args = append(p.args, name+"\t"+render.Printable(kind))
}

// operations returns the names of operations, each with the signature of its start.
func (l *completions) operations() (all []string) {
	for _, name := range l.all {
		probe, args, _ := strings.Cut(name, "\t")
		if operation, isStart := replay.NameOf(probe); isStart {
			all = append(all, operation+"\t"+args)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// arguments returns the names of the arguments of the first probe that a SPEC names, each with its type.
func (l *completions) arguments(text string) []string {
	spec, err := spec.Parse(text)
	if err != nil {
		return nil
	}
	for _, p := range l.probes {
		if spec.Match(p.provider, p.name) {
			return p.args
		}
	}
	return nil
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"

	"github.com/spf13/cobra"
)

// completeSpecs lets the verbs that take a SPEC complete it.
func completeSpecs(root *cobra.Command) {
	for _, verb := range root.Commands() {
		if verb.Flags().Lookup("pid") != nil && verb.Name() != "list" {
			verb.ValidArgsFunction = completeSpec
		}
		for _, flag := range []string{"where", "by", "show", "sum", "key"} {
			if verb.Flags().Lookup(flag) != nil {
				_ = verb.RegisterFlagCompletionFunc(flag, completeExpression)
			}
		}
	}
}

// completeSpec completes a SPEC: with the probes of the recordings of --from, of the processes of
// -p or -a, or of the FILE that the word begins with. Without any of them the word is the beginning
// of a FILE.
func completeSpec(
	c *cobra.Command, args []string, word string,
) (all []string, _ cobra.ShellCompDirective) {
	if _, command := cutCommand(c, args); len(command) > 0 { // cobra has added dashes at the end
		return nil, cobra.ShellCompDirectiveDefault
	}
	probes, directive := offered(c, word)
	switch {
	case probes == nil:
		return nil, directive
	case c.Name() == "hist" && len(args) > 0:
		return arguments(probes, args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	for _, p := range probes {
		name := p.before + p.provider + ":" + p.name
		// these take operations, which have the arguments of their starts
		if c.Name() == "top" || c.Name() == "tree" {
			var isStart bool
			if name, isStart = spec.NameOf(name); !isStart {
				continue
			}
		}
		if name == render.Printable(name) {
			all = append(all, name+"\t"+render.Printable("("+p.signature+")"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}

// completeExpression completes the last name of an expression, with the arguments of the probes of
// the SPECs before it.
func completeExpression(
	c *cobra.Command, args []string, word string,
) (all []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	probes, _ := offered(c, args[0])
	before := word[:1+strings.LastIndexFunc(word, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})]
	for _, spec := range args {
		for _, name := range arguments(probes, spec) {
			if strings.HasPrefix(before+name, word) {
				all = append(all, before+name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// offered returns the probes that complete a SPEC, or nil and another directive for the shell.
func offered(c *cobra.Command, word string) ([]completion, cobra.ShellCompDirective) {
	recordings := recordingsOf(c)
	if recordings == nil || len(recordings.Paths) == 0 {
		var named query.Target
		_ = newProcessList(&named).Set(c.Flags().Lookup("pid").Value.String())
		named.All, _ = c.Flags().GetBool("all")
		return offeredByFiles(&named, word)
	}
	source, err := replay.Open(replay.From{Paths: recordings.Paths}, nil, "", nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer source.Close()
	all := []completion{}
	for _, p := range source.Probes() {
		one := completion{provider: p.Provider, name: p.Name, signature: evaluate.Signature(p)}
		for i := range p.Args {
			name, kind := evaluate.Argument(p, i)
			one.add(name, kind)
		}
		all = append(all, one)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completion is a probe that completes a SPEC.
type completion struct {
	before         string // FILE:, or ""
	provider, name string
	signature      string
	args           []string // for each argument the name, a tab, and the type
}

func (c *completion) add(name, kind string) {
	if name == "" {
		name = fmt.Sprintf("arg%d", len(c.args))
	}
	c.args = append(c.args, name+"\t"+render.Printable(kind))
}

// arguments returns the names of the arguments of the first probe that a SPEC names, each with its
// type.
func arguments(all []completion, text string) []string {
	spec, err := spec.Parse(text)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(all, func(c completion) bool { return spec.Match(c.provider, c.name) })
	if i < 0 {
		return nil
	}
	return all[i].args
}

//go:build unix

package kube

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout limits the time that a shell waits for names from the cluster.
const completionTimeout = 5 * time.Second

// completeNames lets the target and the flags that take names of the cluster complete them.
func completeNames(root *cobra.Command, r *Request) {
	pods := func(k *kubectl, ctx context.Context) []string {
		return k.names(ctx, podKind, r.selection.scope())
	}
	namespaces := func(k *kubectl, ctx context.Context) []string {
		return k.names(ctx, &objectKind{names: []string{"namespaces"}}, nil)
	}
	complete := func(names func(*kubectl, context.Context) []string) (
		[]string, cobra.ShellCompDirective,
	) {
		k, err := newKubectl(r.clusterFlags)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		return names(k, ctx), cobra.ShellCompDirectiveNoFileComp
	}
	for flag, names := range map[string]func(*kubectl, context.Context) []string{
		"pod": pods, "namespace": namespaces, "agent-namespace": namespaces,
	} {
		run := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return complete(names)
		}
		_ = root.RegisterFlagCompletionFunc(flag, run) // which fails for unknown flags only
	}
	for _, verb := range root.Commands() {
		if verb.Name() == "version" {
			continue
		}
		verb.ValidArgsFunction = func(_ *cobra.Command, args []string, word string) (
			[]string, cobra.ShellCompDirective,
		) {
			typ, _, isTyped := strings.Cut(word, "/")
			of := kindNamed(typ)
			switch {
			case len(args) > 0 || r.selection.pod+r.selection.labels != "":
				return nil, cobra.ShellCompDirectiveNoFileComp
			case !isTyped:
				return complete(pods)
			case of == nil:
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(func(k *kubectl, ctx context.Context) (all []string) {
				for _, name := range k.names(ctx, of, r.selection.scope()) {
					all = append(all, typ+"/"+name)
				}
				return all
			})
		}
	}
}

// names returns the names of the objects of a kind, or none if the user may not list them.
func (k *kubectl) names(ctx context.Context, of *objectKind, scope []string) (all []string) {
	out, err := k.run(ctx, append([]string{"get", of.names[0], "--output=name"}, scope...)...)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "/")
		all = append(all, name)
	}
	return all
}

//go:build !linux

package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/schema"

	"github.com/spf13/cobra"
)

// linuxVerbs returns functions that make commands which fail because they need Linux.
func linuxVerbs() map[string]func(*console.Console) *cobra.Command {
	all := map[string]func(*console.Console) *cobra.Command{}
	for _, name := range onlyLinux {
		all[name] = func(*console.Console) *cobra.Command {
			return &cobra.Command{
				Use: name, Short: "(needs Linux)", DisableFlagParsing: true,
				RunE: func(c *cobra.Command, _ []string) error {
					return query.Usagef("%s works on Linux only", name)
				},
			}
		}
	}
	return all
}

// linuxObjects returns none: the verbs that print them need Linux.
func linuxObjects() []schema.Kind { return nil }

func processCalled(string) (int, error) { return 0, query.ErrLinux }

func processesLike(string) ([]int, error) { return nil, query.ErrLinux }

func checkName(string) error { return query.ErrLinux }

func isAmbiguous(error) bool { return false }

func isNoProcess(error) bool { return false }

// hasPods returns true: a name with a slash is a pod, because processes cannot be searched
// here.
var hasPods = func() bool { return true }

func completePID(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func offeredByFiles(*query.Target, string) ([]completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func tracingStatus(*cobra.Command, error) (status int, hint string) { return 0, "" }

func runWith(*console.Console, *query.Config, []string, []string, func() error) error {
	return query.ErrLinux
}

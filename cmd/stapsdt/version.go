package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/spf13/cobra"
)

// release and commit are set by scripts/release.sh with -ldflags -X. Without them, Go's build
// information identifies the code.
var release, commit string

func versionCommand(to *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the version of Go",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return query.Usagef("version takes no arguments")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(to.Out, "%s version %s\n", c.Root().Name(), c.Root().Version)
			return err
		},
	}
}

// version returns the released version, or the module's version as go install records it.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return cmp.Or(release, "(unknown)")
	}
	return cmp.Or(release, info.Main.Version, "(unknown)")
}

// build returns the version, the commit and the version of Go. A module that was downloaded
// has a version, and no commit.
func build() string {
	revision := commit
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	if revision != "" {
		revision = "commit " + revision + ", "
	}
	return fmt.Sprintf("%s (%s%s %s/%s)", version(), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

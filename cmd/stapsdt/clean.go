//go:build linux

package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/tools/clean"
	"github.com/spf13/cobra"
)

func cleanCommand(to *console.Console) *cobra.Command {
	var opts clean.Options
	var format query.Format
	var verbose bool
	c := &cobra.Command{
		Use:   "clean [--dry-run] [--older 1h] [-a | DIRECTORY...]",
		Short: "Remove the images that no process has mapped",
		Long: `Remove the files of images that no process has mapped. The library leaves them for the next
process with the same probes. If there is none, they stay.

Without a DIRECTORY, clean looks into the directories that your programs use: $STAPSDT_DIR,
$XDG_RUNTIME_DIR/stapsdt, $TMPDIR/stapsdt-UID, and the files of the C library in /tmp.

The kernel reports whether a process has a file open or mapped, in any namespace. Where it does not,
as on overlayfs or without CAP_LEASE for another user's file, the file is left.`,
		Example: `  stapsdt clean --dry-run -v
  sudo stapsdt clean -a --older 24h`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := nameDirectories(&opts, args); err != nil {
				return err
			}
			counts, err := clean.Write(to.Out, clean.Clean(opts), format, verbose)
			switch {
			case err != nil:
				return err
			case counts[clean.Failed] > 0:
				return statusError(exitFailure)
			case counts[clean.Unseen] > 0:
				return statusError(exitRights)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&opts.DryRun, "dry-run", false, "show what would be removed, and remove nothing")
	c.Flags().DurationVar(&opts.Older, "older", time.Hour, "leave files that were written or read within this `TIME`")
	c.Flags().BoolVarP(&opts.All, "all", "a", false, "the directories of all users")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also show what is in use or too young")
	outputFlag(c, &format)
	return c
}

// nameDirectories checks the options, and adds the directories that the user named.
func nameDirectories(opts *clean.Options, paths []string) error {
	switch {
	case opts.Older < 0:
		return query.Usagef("the time %v is negative", opts.Older)
	case opts.All && len(paths) > 0:
		return query.Usagef("clean takes either -a or DIRECTORY")
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return query.Usagef("%s is not a directory", path)
		}
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		opts.Named = append(opts.Named, path)
	}
	return nil
}

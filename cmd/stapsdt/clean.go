//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/clean"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/spf13/cobra"
)

// cleaner is the command clean.
type cleaner struct {
	*console.Console
	opts    clean.Options
	all     bool
	verbose bool
	asJSON  bool
}

func cleanCommand(to *console.Console) *cobra.Command {
	cl := &cleaner{Console: to}
	c := &cobra.Command{
		Use:   "clean [--dry-run] [--older 1h] [-a | DIRECTORY...]",
		Short: "Remove the images that no process has mapped",
		Long: `Remove the files of images that no process has mapped. The library leaves them for the next
process with the same probes. If there is none, they stay.

Without a DIRECTORY, clean looks into the directories that your programs use: $STAPSDT_DIR,
$XDG_RUNTIME_DIR/stapsdt, $TMPDIR/stapsdt-UID, and the files of the C library in /tmp.

The kernel says whether a process has a file open or mapped, in any namespace. Where it does not,
as on overlayfs or without CAP_LEASE for another user's file, the file is left.`,
		Example: `  stapsdt clean --dry-run -v
  sudo stapsdt clean -a --older 24h`,
		RunE: func(_ *cobra.Command, args []string) error { return cl.run(args) },
	}
	c.Flags().BoolVar(&cl.opts.DryRun, "dry-run", false, "show what would be removed, and remove nothing")
	c.Flags().DurationVar(&cl.opts.Older, "older", time.Hour, "leave files that were written or read within this `TIME`")
	c.Flags().BoolVarP(&cl.all, "all", "a", false, "the directories of all users")
	c.Flags().BoolVarP(&cl.verbose, "verbose", "v", false, "also show what is in use or too young")
	outputFlag(c, &cl.asJSON)
	return c
}

func (cl *cleaner) run(paths []string) error {
	switch {
	case cl.opts.Older < 0:
		return console.Usagef("the time %v is negative", cl.opts.Older)
	case cl.all && len(paths) > 0:
		return console.Usagef("clean takes one of -a and DIRECTORY")
	case len(paths) == 0:
		cl.opts.Directories = clean.Directories(os.Getenv, os.Geteuid(), cl.all)
	}
	cl.opts.Named = len(paths) > 0
	if cl.opts.UID = os.Geteuid(); cl.all {
		cl.opts.UID = -1
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return console.Usagef("%s is not a directory", path)
		}
		path, err = filepath.Abs(path)
		if err != nil {
			return err
		}
		cl.opts.Directories = append(cl.opts.Directories, path)
	}
	files := clean.Clean(cl.opts)
	if err := (clean.Report{JSON: cl.asJSON, Verbose: cl.verbose}).Write(cl.Out, files); err != nil {
		return err
	}
	switch failed := func(a clean.Action) bool {
		return slices.ContainsFunc(files, func(f clean.File) bool { return f.Action == a })
	}; {
	case failed(clean.Failed):
		return statusError(exitFailure)
	case failed(clean.Unseen):
		return statusError(exitRights)
	}
	return nil
}

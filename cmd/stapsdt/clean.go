//go:build linux

package main

import (
	"os"
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

A file that a process in another mount or PID namespace has mapped is not removed: clean asks
the kernel whether a file is in use. If the kernel cannot say, the file is left unless every
process can be seen here.`,
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
	case cl.all:
		cl.opts.Directories = clean.AllDirectories(os.Getenv, os.Geteuid())
	case len(paths) == 0:
		cl.opts.Directories = clean.Directories(os.Getenv, os.Geteuid())
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return console.Usagef("%s is not a directory", path)
		}
		cl.opts.Directories = append(cl.opts.Directories, clean.Named(path))
	}
	files, blind := clean.Clean(cl.opts)
	if cl.opts.DryRun && blind != "" && slices.ContainsFunc(files, func(f clean.File) bool { return f.Action == clean.Removable }) {
		cl.Warn("not every process can be seen here (%s); what one of those has open would not be removed", blind)
	}
	report := clean.Report{Options: cl.opts, JSON: cl.asJSON, Verbose: cl.verbose}
	if err := report.Write(cl.Out, files); err != nil {
		return err
	}
	return cleanStatus(files)
}

// cleanStatus is that of rights if a file was left for want of them.
func cleanStatus(files []clean.File) error {
	status := 0
	for _, f := range files {
		switch f.Action {
		case clean.Failed:
			return statusError(exitFailure)
		case clean.Unseen:
			status = exitRights
		}
	}
	if status != 0 {
		return statusError(status)
	}
	return nil
}

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/clean"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/usage"
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
		return usage.Errorf("the time %v is negative", cl.opts.Older)
	case cl.all && len(paths) > 0:
		return usage.Errorf("clean takes one of -a and DIRECTORY")
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
			return usage.Errorf("%s is not a directory", path)
		}
		cl.opts.Directories = append(cl.opts.Directories, clean.Named(path))
	}
	files, blind := clean.Clean(cl.opts)
	if cl.opts.DryRun && blind != "" && slices.ContainsFunc(files, func(f clean.File) bool { return f.Action == clean.Removable }) {
		cl.Warn("not every process can be seen here (%s); what one of those has open would not be removed", blind)
	}
	out := bufio.NewWriter(cl.Out)
	encoder := render.NewEncoder(out)
	for _, f := range files {
		if cl.asJSON {
			if err := encoder.Encode(f); err != nil {
				return err
			}
		} else {
			cl.text(out, f)
		}
	}
	if !cl.asJSON {
		cl.summary(out, files)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return cl.status(files)
}

// text prints a line for what was removed, and for what was left though it is not in use as
// far as one can see.
func (cl *cleaner) text(out *bufio.Writer, f clean.File) {
	did := map[clean.Action]string{clean.Removed: "removed", clean.Removable: "would remove"}[f.Action]
	if did == "" {
		if (f.Action == clean.Young || f.Action == clean.Mapped) && !cl.verbose {
			return
		}
		did = "left"
	}
	fmt.Fprintf(out, "%s %s", did, render.Printable(f.Path))
	switch {
	case f.Why != "":
		fmt.Fprintf(out, ": %s", render.Printable(f.Why))
	default:
		fmt.Fprintf(out, ": not used for %v", f.Unused)
	}
	fmt.Fprintln(out)
}

func (cl *cleaner) summary(out *bufio.Writer, files []clean.File) {
	counts := map[clean.Action]int{}
	var size int64
	for _, f := range files {
		counts[f.Action]++
		if f.Action == clean.Removed || f.Action == clean.Removable {
			size += f.Size
		}
	}
	did, n := "removed", counts[clean.Removed]
	if cl.opts.DryRun {
		did, n = "would be removed", counts[clean.Removable]
	}
	parts := []string{fmt.Sprintf("%s (%d bytes)", fileCount(n, did), size)}
	for _, each := range []struct {
		action clean.Action
		why    string
	}{
		{clean.Mapped, "in use"},
		{clean.Young, fmt.Sprintf("used within %v", cl.opts.Older)},
		{clean.Unseen, "left, because a process that cannot be seen may use it"},
		{clean.Failed, "failed"},
	} {
		if n := counts[each.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, each.why))
		}
	}
	fmt.Fprintln(out, strings.Join(parts, ", "))
}

func fileCount(n int, did string) string {
	if n == 1 {
		return "1 file " + did
	}
	return fmt.Sprintf("%d files %s", n, did)
}

// status is that of rights if a file was left for want of them.
func (cl *cleaner) status(files []clean.File) error {
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

//go:build linux

package clean

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// Report prints what was done with each file.
type Report struct {
	Options
	// JSON prints an object per file.
	JSON bool
	// Verbose also shows what is in use or too young.
	Verbose bool
}

// Write writes a line for each file, and for people a summary.
func (r *Report) Write(to io.Writer, files []File) error {
	out := bufio.NewWriter(to)
	encoder := render.NewEncoder(out)
	for _, f := range files {
		if r.JSON {
			if err := encoder.Encode(f); err != nil {
				return err
			}
		} else {
			r.text(out, f)
		}
	}
	if !r.JSON {
		r.summary(out, files)
	}
	return out.Flush()
}

// text prints a line for each file that was removed, and for each that was left although it does
// not appear to be in use.
func (r *Report) text(out *bufio.Writer, f File) {
	did := map[Action]string{Removed: "removed", Removable: "would remove"}[f.Action]
	if did == "" {
		if (f.Action == Young || f.Action == Mapped) && !r.Verbose {
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

func (r *Report) summary(out *bufio.Writer, files []File) {
	counts := map[Action]int{}
	var size int64
	for _, f := range files {
		counts[f.Action]++
		if f.Action == Removed || f.Action == Removable {
			size += f.Size
		}
	}
	did, n := "removed", counts[Removed]
	if r.Options.DryRun {
		did, n = "would be removed", counts[Removable]
	}
	parts := []string{fmt.Sprintf("%s (%d bytes)", fileCount(n, did), size)}
	for _, each := range []struct {
		action Action
		why    string
	}{
		{Mapped, "in use"},
		{Young, fmt.Sprintf("used within %v", r.Options.Older)},
		{Unseen, "left, because a process that cannot be seen may use it"},
		{Failed, "failed"},
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

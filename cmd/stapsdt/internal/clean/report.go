//go:build linux

package clean

import (
	"bufio"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// Report prints the results.
type Report struct {
	// JSON prints an object per file.
	JSON bool
	// Verbose also shows the files that are in use or too young.
	Verbose bool
}

// Write writes a line for each file, and a summary unless JSON is set.
func (r Report) Write(to io.Writer, files []File) error {
	out := bufio.NewWriter(to)
	encoder := render.NewEncoder(out)
	counts := map[Action]int{}
	var size int64
	for _, f := range files {
		if r.JSON {
			if err := encoder.Encode(f); err != nil {
				return err
			}
			continue
		}
		counts[f.Action]++
		did, why := "left", render.Printable(f.Why)
		switch f.Action {
		case Removed, Removable:
			did = map[Action]string{Removed: "removed", Removable: "would remove"}[f.Action]
			size += f.Size
		case Young, Mapped:
			if !r.Verbose {
				continue
			}
		}
		if why == "" {
			why = fmt.Sprintf("not used for %v", f.Unused)
		}
		fmt.Fprintf(out, "%s %s: %s\n", did, render.Printable(f.Path), why)
	}
	if !r.JSON {
		if n := counts[Removable]; n > 0 {
			fmt.Fprintf(out, "%d would be removed (%d bytes), unless a process that cannot be seen uses them", n, size)
		} else {
			fmt.Fprintf(out, "%d removed (%d bytes)", counts[Removed], size)
		}
		for _, each := range []struct {
			action Action
			why    string
		}{{Mapped, "in use"}, {Young, "too young"}, {Unseen, "left, because a process may use it"}, {Failed, "failed"}} {
			if n := counts[each.action]; n > 0 {
				fmt.Fprintf(out, ", %d %s", n, each.why)
			}
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

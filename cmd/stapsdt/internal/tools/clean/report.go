//go:build linux

package clean

import (
	"bufio"
	"cmp"
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// Write writes a line for each file, and a summary, or in JSON an object for each file. With
// verbose, the lines include the files that are in use or too young. It returns the number of files
// with each result.
func Write(to io.Writer, files []File, format query.Format, verbose bool) (map[Action]int, error) {
	out := bufio.NewWriter(to)
	encoder := render.NewEncoder(out)
	counts := map[Action]int{}
	size := int64(0)
	for _, f := range files {
		counts[f.Action]++
		if f.Action == Removed || f.Action == Removable {
			size += f.Size
		}
		switch {
		case format.IsJSON():
			if err := encoder.Encode(f); err != nil {
				return nil, err
			}
		case verbose || f.Action != Young && f.Action != Mapped:
			did := cmp.Or(map[Action]string{Removed: "removed", Removable: "would remove"}[f.Action], "left")
			why := cmp.Or(render.Printable(f.Why), fmt.Sprintf("not used for %v", f.Unused))
			fmt.Fprintf(out, "%s %s: %s\n", did, render.Printable(f.Path), why)
		}
	}
	if format.IsJSON() {
		return counts, out.Flush()
	}
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
	return counts, out.Flush()
}

package tree

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
)

const (
	bold, dim, red, plain = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"
	// maxIndent is the depth beyond which operations are not indented further.
	maxIndent = 30
)

// writer writes trees for people.
type writer struct {
	color bool
	width int // maximum width of a line
	pods  bool
}

// text formats a tree.
func (w *writer) text(t *tree) []byte {
	var b bytes.Buffer
	root := t.root
	head := root.at.Format("15:04:05.000000")
	if pod := root.process.Process.PodName(); w.pods && pod != "" {
		head += "  " + pod
	}
	head += fmt.Sprintf("  process %d", root.pid)
	switch {
	case root.goroutine != 0:
		head += fmt.Sprintf("  goroutine %d", root.goroutine)
	case root.tid != 0:
		head += fmt.Sprintf("  thread %d", root.tid)
	}
	switch len(t.key) {
	case 0:
	case 1:
		head += "  id " + t.key.ForText()
	default:
		head += "  key " + t.key.ForText()
	}
	w.line(&b, bold, head)
	w.operations(&b, root)
	for _, note := range t.notes() {
		w.line(&b, "", note)
	}
	return b.Bytes()
}

// operations writes an operation and those that it consists of, below a heading.
func (w *writer) operations(b *bytes.Buffer, root *node) {
	w.line(b, dim, fmt.Sprintf("%8s %8s  %4s  %s", "TIME", "OWN", "PART", "OPERATION"))
	root.walk(func(n *node, depth int) {
		color := ""
		if n.failed {
			color = red
		}
		w.line(b, color, n.columns(root)+indent(depth)+n.describe())
	})
}

// line writes a line.
func (w *writer) line(b *bytes.Buffer, color, text string) {
	text = render.Cut(text, w.width)
	if w.color && color != "" {
		text = color + text + plain
	}
	b.WriteString(text + "\n")
}

func indent(depth int) string {
	if depth > maxIndent {
		return strings.Repeat("  ", maxIndent) + fmt.Sprintf("(depth %d) ", depth)
	}
	return strings.Repeat("  ", depth)
}

// columns formats the times of an operation: its duration, the part of it without its children, and
// its percentage of the root's time.
func (n *node) columns(root *node) string {
	took := n.end(root) - n.since
	text := render.Duration(float64(took))
	switch {
	case n.unwound:
		text = "<" + text
	case !n.ended:
		text = ">" + text
	}
	return fmt.Sprintf("%8s %8s  %3d%%  ", text, render.Duration(float64(n.own(root))), n.part(root))
}

// part returns the operation's share of the root's time, in percent.
func (n *node) part(root *node) int {
	return int((100*float64(n.end(root)-n.since))/float64(max(root.took, 1)) + 0.5)
}

// describe returns the name of an operation and its known properties.
func (n *node) describe() string {
	text := render.Printable(n.name)
	if all := append(n.arguments(), n.results()...); len(all) > 0 {
		text += " " + evaluate.Join(all)
	}
	if n.failed {
		text += "  FAILED"
	}
	switch {
	case n.unwound:
		text += "  its return was not seen"
	case !n.ended && !n.isOpen():
		text += "  its end may be lost"
	case !n.ended:
		text += "  not ended yet"
	}
	return text
}

// notes returns lines about missing events and operations.
func (t *tree) notes() (all []string) {
	if t.root.parent != 0 {
		all = append(all, fmt.Sprintf("it belongs to the operation %d, which is not selected, began earlier, or was lost", t.root.parent))
	}
	if t.dropped > 0 {
		all = append(all, fmt.Sprintf("%s more, for which there was no room", render.Number(t.dropped, "operation")))
	}
	if t.partial {
		all = append(all, "the recording has lost events of this time: operations may be missing")
	}
	if t.lost > 0 {
		all = append(all, fmt.Sprintf("%s lost meanwhile: operations may be missing", render.Number(t.lost, "event")))
	}
	return all
}

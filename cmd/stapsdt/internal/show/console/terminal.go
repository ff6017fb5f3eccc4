package console

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"

	"golang.org/x/term"
)

// winsize returns the size of w as the system reports it, or false if w is not a
// terminal.
func winsize(w any) (columns, rows int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	return columns, rows, err == nil
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	_, _, ok := winsize(w)
	return ok
}

// Size returns the size of the terminal w, or false if w is not a terminal or
// cannot move its cursor.
func Size(w any) (rows, columns int, ok bool) {
	columns, rows, ok = winsize(w)
	if !ok || !movesCursor(w.(*os.File)) {
		return 0, 0, false
	}
	if rows == 0 || columns == 0 { // unknown
		return 24, 80, true
	}
	return rows, columns, true
}

// Reader is a terminal on another machine that shows the output, such as the terminal of kubectl
// stapsdt. Its cursor cannot be moved.
type Reader struct {
	Columns int // 0 if it is unknown
	Colored bool
}

var reader Reader

// SetReader notes that the output goes through a pipe to a terminal on another machine. It is
// called before anything is written.
func SetReader(r Reader) { reader = r }

// Columns returns the number of columns of the output: the width of the terminal, and elsewhere the
// value of COLUMNS, or text.Unlimited.
func Columns(w any) int {
	columns, _, isTerminal := winsize(w)
	if isTerminal && columns > 0 {
		return columns
	}
	if reader.Columns > 0 {
		return reader.Columns
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	if isTerminal || reader != (Reader{}) {
		return 80
	}
	return text.Unlimited
}

// Colored reports whether colors may be used.
func Colored(w any) bool {
	_, _, ok := Size(w)
	return (ok || reader.Colored) && os.Getenv("NO_COLOR") == ""
}

// fit cuts text to the given size, so that it can be replaced later.
func fit(s string, rows, columns int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
	var b strings.Builder
	for i, line := range lines {
		if rest := len(lines) - i; i == rows-2 && rest > 1 {
			fmt.Fprintf(&b, "… %d more lines\n", rest)
			break
		}
		b.WriteString(text.Cut(strings.TrimSuffix(line, "\n"), columns) + "\n")
	}
	return b.String()
}

// Screen shows texts for people one after another. On a terminal, each replaces the previous one;
// elsewhere an empty line separates them.
type Screen struct {
	*Console
	lines int // the number of lines of the previous text
}

// Show shows a text. On a terminal all but the last one are cut to its size.
func (s *Screen) Show(text []byte, last bool) error {
	if height, width, ok := Size(s.Out); ok {
		if !last {
			text = []byte(fit(string(text), height, width))
		}
		s.lines, text = bytes.Count(text, []byte("\n")), append(Erase(s.lines, last), text...)
	} else {
		if s.lines > 0 {
			text = append([]byte("\n"), text...)
		}
		s.lines = 1
	}
	_, err := s.Out.Write(text)
	return err
}

// Erase returns the control sequence that removes the previous lines from a terminal. At the end it
// also removes the ^C that the terminal has printed, which would shift the first line.
func Erase(lines int, last bool) []byte {
	if lines == 0 && last {
		return []byte("\r\x1b[K")
	}
	if lines == 0 {
		return nil
	}
	return fmt.Appendf(nil, "\x1b[%dA\r\x1b[J", lines)
}

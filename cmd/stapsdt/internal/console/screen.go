//go:build linux

package console

import (
	"bytes"
	"fmt"
)

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

// Erase returns the control sequence that removes the previous lines from a terminal. At the end it also
// removes the ^C that the terminal has printed, which would shift the first line.
func Erase(lines int, last bool) []byte {
	if lines == 0 && last {
		return []byte("\r\x1b[K")
	}
	if lines == 0 {
		return nil
	}
	return fmt.Appendf(nil, "\x1b[%dA\r\x1b[J", lines)
}
